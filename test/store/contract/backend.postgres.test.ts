import { databaseLocation } from '../../helpers/postgres/backends.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { describeBackend } from './describe-backend.ts';

describeBackend('PostgreSQL', async (clock) =>
  databaseLocation(await freshDatabase(), { clock, testTime: clock.now }),
);
