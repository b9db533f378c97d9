// `npm run test:all` runs all tests except test/package/, including the slow ones, with three times as many random cases as
// `npm test`.
import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';
import base from './vitest.config.ts';

export default defineConfig({
  resolve: base.resolve ?? {},
  test: {
    ...base.test,
    exclude: [...configDefaults.exclude, 'test/package/**'],
    // Slow tests wait for other processes even more than those of `npm test`.
    maxWorkers: 2 * availableParallelism(),
    env: { PETS_CASES_PERCENT: '30' },
    globalSetup: ['.config/stale-build.ts', '.config/report-skips.ts', '.config/postgres-server.ts'],
    setupFiles: ['.config/replace-modules.ts', '.config/postgres-tests.ts'],
  },
});
