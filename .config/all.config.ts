// `npm run test:all` runs all tests except test/package/, including the slow ones, with all random cases.
import { configDefaults, defineConfig } from 'vitest/config';
import base from './vitest.config.ts';

export default defineConfig({
  test: {
    ...base.test,
    exclude: [...configDefaults.exclude, 'test/package/**'],
    env: { PETS_ALL_CASES: '1' },
    globalSetup: '.config/postgres-server.ts',
    setupFiles: '.config/postgres-tests.ts',
  },
});
