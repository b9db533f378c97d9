// `npm test` runs all tests except *.slow.test.ts, *.postgres.test.ts and test/package/, with a tenth of the random
// cases (test/helpers/cases.ts), or three tenths in `.ci/run`.
import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';

export default defineConfig({
  // The build replaces these modules too (.config/build.ts).
  resolve: {
    alias: {
      'when-exit': `${import.meta.dirname}/replaced/when-exit.js`,
      'env-paths': `${import.meta.dirname}/replaced/env-paths.js`,
    },
  },
  test: {
    server: { deps: { inline: ['conf', 'atomically'] } },
    setupFiles: ['.config/replace-modules.ts'],
    root: `${import.meta.dirname}/..`,
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, 'test/**/*.{slow,postgres}.test.ts', 'test/package/**'],
    // No module has state, except the databases in test/helpers/postgres.ts, so test files can share the loaded modules.
    // Loading them for each file doubled the time.
    isolate: false,
    // More workers than processors, because tests often wait for processes and disks.
    maxWorkers: Math.ceil(1.5 * availableParallelism()),
    globalSetup: ['.config/stale-build.ts', '.config/report-skips.ts'],
    // Even on a busy machine, only a test that hangs reaches this timeout.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { interval: 10, timeout: 60_000 } },
  },
});
