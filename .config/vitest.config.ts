// npm test: every test but the slow ones (*.slow.test.ts), with a tenth of the random cases (test/helpers/cases.ts).
import { configDefaults, defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: `${import.meta.dirname}/..`,
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, 'test/**/*.slow.test.ts'],
    // No module has state, so files can share the modules that a worker has loaded: loading them took half of the time.
    isolate: false,
    maxWorkers: '100%',
    // Long enough for a busy machine: only a test that hangs reaches it.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { interval: 10, timeout: 60_000 } },
  },
});
