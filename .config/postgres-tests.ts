// Skips the tests of *.postgres.test.ts if PostgreSQL is not installed. In CI, they fail instead.
import { beforeEach, inject } from 'vitest';

beforeEach(({ task, skip }) => {
  if (!task.file.name.endsWith('.postgres.test.ts') || inject('postgresPort') !== undefined) return;
  const reason = 'PostgreSQL 15 or newer is not installed';
  if (process.env['PETS_REQUIRE_POSTGRES']) throw new Error(reason);
  skip(reason);
});
