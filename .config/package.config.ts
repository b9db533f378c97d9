// `npm run test:package` runs the end-to-end tests and a test of TLS on the executable, and the tests in test/package/.
import { join } from 'node:path';
import { configDefaults, defineConfig } from 'vitest/config';
import base from './vitest.config.ts';

export default defineConfig({
  resolve: base.resolve ?? {},
  test: {
    ...base.test,
    include: ['test/{e2e,package}/**/*.test.ts', 'test/client/tls.test.ts'],
    exclude: configDefaults.exclude,
    env: {
      PETS_EXECUTABLE:
        process.env['PETS_EXECUTABLE'] ?? join(import.meta.dirname, '..', 'dist-package', 'pets-linux-x64'),
    },
    globalSetup: ['.config/report-skips.ts', '.config/postgres-server.ts'],
    setupFiles: ['.config/replace-modules.ts', '.config/postgres-tests.ts'],
  },
});
