import { StoreError, StoreUnavailableError } from '../../errors.ts';
import type { SchemaClient } from './migrate.ts';

const OLDEST_SERVER = 150_000;

type ServerSettings = {
  version: string;
  versionNumber: number;
  encoding: string;
  isStandby: boolean;
  isolation: string;
  fsync: string;
  fullPageWrites: string;
  synchronousCommit: string;
};

/**
 * Checks whether the database server can keep a store. Returns warnings about settings with which a crash can lose
 * acknowledged animals.
 *
 * @throws StoreError, StoreUnavailableError if the server is a standby server, or an error of the driver
 */
export async function checkServer(client: SchemaClient): Promise<string[]> {
  const { rows } = await client.query<ServerSettings>(`select
    current_setting('server_version') as version,
    current_setting('server_version_num')::int as "versionNumber",
    current_setting('server_encoding') as encoding,
    pg_is_in_recovery() as "isStandby",
    current_setting('default_transaction_isolation') as isolation,
    current_setting('fsync') as fsync,
    current_setting('full_page_writes') as "fullPageWrites",
    current_setting('synchronous_commit') as "synchronousCommit"`);
  const [settings] = rows;
  if (!settings) throw new StoreError('the database returned no settings', 'check the database server');
  const { version, versionNumber, encoding, isStandby, isolation, fsync, fullPageWrites, synchronousCommit } =
    settings;
  if (versionNumber < OLDEST_SERVER) {
    throw new StoreError(`the database server has version ${version}`, 'use PostgreSQL 15 or later');
  }
  if (encoding !== 'UTF8') {
    throw new StoreError(
      `the database has the encoding ${encoding}, which cannot store every name`,
      "create the database with ENCODING 'UTF8'",
    );
  }
  if (isStandby) {
    throw new StoreUnavailableError(
      'the database is read-only, because it is a standby server',
      'use the address of the primary server',
      { outcome: 'not_done' },
    );
  }
  if (isolation !== 'read committed') {
    throw new StoreError(
      `the default isolation level is ${isolation}`,
      "run ALTER ROLE … SET default_transaction_isolation = 'read committed' for the user of the URL",
    );
  }
  return [
    fsync === 'off' && 'fsync is off: a crash of the database server can destroy the store',
    fullPageWrites === 'off' && 'full_page_writes is off: a power failure can destroy the store',
    synchronousCommit === 'off' && 'synchronous_commit is off; pets turns it on when it adds animals',
  ].filter((warning) => warning !== false);
}
