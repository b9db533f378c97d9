import { expect, it } from 'vitest';
import { simulateBulkAdd } from '../helpers/bulk-power-loss.ts';
import { cases } from '../helpers/cases.ts';

const SEEDS = cases(2_000, 'PETS_POWER_LOSS_SEEDS');

it(
  `no row is added twice or left out, whatever fails, with ${SEEDS} seeds`,
  async () => {
    const sum = { crashes: 0, lost: 0, repeated: 0, changed: 0, unknown: 0, parallel: 0 };
    for (let seed = 0; seed < SEEDS; seed++) {
      const figures = await simulateBulkAdd(seed);
      for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += figures[key];
    }
    // The simulations must cover each kind of event often enough.
    for (const count of Object.values(sum)) expect(count).toBeGreaterThan(SEEDS / 10);
  },
  SEEDS * 50 + 120_000,
);
