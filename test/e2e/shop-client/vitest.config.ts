import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.spec.ts'],
    // All test files use the same service, and each test resets it.
    fileParallelism: false,
  },
});
