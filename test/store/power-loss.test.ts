import { describe, expect, it } from 'vitest';
import { type Figures, mutants, simulatePowerLoss } from '../helpers/store-power-loss.ts';

const SEEDS = Number(process.env['PETS_POWER_LOSS_SEEDS'] ?? 2_000);
const FIRST = Number(process.env['PETS_POWER_LOSS_FIRST'] ?? 0);

describe('power loss', () => {
  it(
    `loses nothing that was promised, under ${SEEDS} seeds`,
    async () => {
      const sum: Figures = { lives: 0, added: 0, replayed: 0, seen: 0, torn: 0, failed: 0 };
      for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
        const figures = await simulatePowerLoss(seed);
        for (const key of Object.keys(sum) as (keyof Figures)[]) sum[key] += figures[key];
      }
      // The stories must have had something in them.
      for (const count of Object.values(sum)) expect(count).toBeGreaterThan(SEEDS / 100);
    },
    SEEDS * 20 + 20_000,
  );

  it.each(Object.entries(mutants))('finds out a store with %s', async (_, wrap) => {
    for (let seed = 0; seed < 2_000; seed++) {
      const isFound = await simulatePowerLoss(seed, wrap).then(
        () => false,
        () => true,
      );
      if (isFound) return;
    }
    expect.fail('it was not found out');
  });
});
