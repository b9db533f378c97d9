import { expect, test } from 'vitest';
import { type ImportFigures, NO_FIGURES, simulateImports } from '../helpers/import-model.ts';

// `npm run soak` runs 20,000 seeds.
const SEEDS = Number(process.env['PETS_IMPORT_SEEDS'] ?? 500);
const FIRST_SEED = Number(process.env['PETS_IMPORT_FIRST'] ?? 0);

test(
  `${SEEDS} sequences of imports: no row twice, none missing, and every report is true`,
  async () => {
    const total: ImportFigures = { ...NO_FIGURES };
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
      const figures = await simulateImports(seed);
      for (const key of Object.keys(total) as (keyof ImportFigures)[]) total[key] += figures[key];
    }
    // The simulations must cover each kind of event often enough.
    for (const [event, count] of Object.entries(total)) expect(count, event).toBeGreaterThan(SEEDS / 20);
  },
  SEEDS * 100 + 60_000,
);
