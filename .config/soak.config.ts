// The tests that gain from running long, many times longer than in CI. A failure prints the seed that replays it.
import { defineConfig, mergeConfig } from 'vitest/config';
import all from './all.config.ts';

const figures = {
  PETS_POWER_LOSS_SEEDS: '200000',
  PETS_BIT_FLIPS: '20000',
  PETS_KILLS: '200',
  PETS_FUZZ_REQUESTS: '100000',
  PETS_FUZZ_BYTES: '20000',
  PETS_COOL_DOWN_SECONDS: '120',
  PETS_BULK_ROWS: '500',
  PETS_BULK_KILLS: '20',
};

export default mergeConfig(
  all,
  defineConfig({
    test: {
      // A variable that is set in the environment overrides its figure.
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
