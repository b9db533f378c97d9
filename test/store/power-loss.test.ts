import { describe, expect, it } from 'vitest';
import { cases } from '../helpers/cases.ts';
import { type Counts, NO_COUNTS, simulatePowerLoss } from '../helpers/store-power-loss.ts';

const SEEDS = cases(2_000, 'PETS_POWER_LOSS_SEEDS');
const FIRST_SEED = Number(process.env['PETS_POWER_LOSS_FIRST'] ?? 0);

describe('power loss', () => {
  it(`loses nothing that was acknowledged: ${SEEDS} seeds`, { timeout: SEEDS * 100 + 60_000 }, async () => {
    const total: Counts = { ...NO_COUNTS };
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
      const counts = await simulatePowerLoss(seed);
      for (const key of Object.keys(total) as (keyof Counts)[]) total[key] += counts[key];
    }
    // The simulations must cover each kind of event often enough.
    for (const count of Object.values(total)) expect(count).toBeGreaterThan(SEEDS / 100);
  });
});
