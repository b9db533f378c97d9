// `npm run soak` runs tests with many more random cases than CI does. A failure prints the seed that repeats it.
import { defineConfig, mergeConfig } from 'vitest/config';
import all from './all.config.ts';

const figures = {
  PETS_CASES_PERCENT: '100',
  PETS_POWER_LOSS_SEEDS: '200000',
  PETS_BIT_FLIPS: '20000',
  PETS_KILLS: '200',
  PETS_FUZZ_REQUESTS: '100000',
  PETS_FUZZ_BYTES: '20000',
  PETS_COOL_DOWN_SECONDS: '120',
  PETS_IMPORT_SEEDS: '20000',
  PETS_IMPORT_ROWS: '500',
  PETS_IMPORT_KILLS: '20',
  PETS_POSTGRES_ROUNDS: '20',
  PETS_POSTGRES_FAILOVERS: '5',
};

export default mergeConfig(
  all,
  defineConfig({
    test: {
      // An environment variable overrides the figure with the same name.
      env: {
        ...figures,
        ...Object.fromEntries(
          Object.keys(figures).flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])),
        ),
      },
      testTimeout: 3_600_000,
    },
  }),
);
