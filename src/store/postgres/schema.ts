import { readFileSync } from 'node:fs';
import type { ClientBase, QueryResultRow } from 'pg';
import type { Migration } from '../backend.ts';
import { StoreDamagedError, StoreError, StoreMissingError, StoreVersionError } from '../errors.ts';

/** One connection to the database. */
export type SchemaClient = Pick<ClientBase, 'query'>;

/** The store in a database. `secret` salts the fingerprints of idempotency keys. */
export type StoreIdentity = { id: string; secret: string };

/** The version of the schema that this program creates, and that its calls need. `tables.sql` stores it. */
export const SCHEMA_VERSION = 2;

// The build replaces each of these calls with the text of the file.
const SCHEMA_SQL = [
  readFileSync(new URL('sql/tables.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/checks.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/create.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/read.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/limits.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/maintenance.sql', import.meta.url), 'utf8'),
].join('\n');

/**
 * Where names without a schema are looked up. By default, users may create functions and operators in `public`, which could
 * replace those of PostgreSQL in statements of other users. Temporary objects come last for the same reason.
 */
const SEARCH_PATH = 'set local search_path = pg_catalog, pg_temp';

/** Identifies the lock that keeps migrations apart: the letters `pets`. */
const LOCK = 'select pg_catalog.pg_advisory_xact_lock(1885697139::bigint)';

/**
 * Begins a transaction for anything but the short calls of a server. Limits of time that were set for the user, which short
 * calls need if they go through pgbouncer, do not apply to it. It is durable when it has committed.
 */
export const beginTransaction = (isolation: 'read committed' | 'repeatable read read only'): string =>
  `begin isolation level ${isolation};
${SEARCH_PATH};
set local statement_timeout = 0;
set local lock_timeout = '4s';
set local idle_in_transaction_session_timeout = 0;
set local synchronous_commit = on`;

/**
 * Creates the store if the database contains none. Call this in a transaction with the isolation level READ COMMITTED. Until
 * it ends, no other program can create the store. If the store exists, the privileges of a server are enough.
 *
 * @throws StoreVersionError if the schema has another version, StoreDamagedError, StoreError, or an error of the driver
 */
export async function migrate(client: SchemaClient): Promise<Migration> {
  const { version: from } = await readState(client);
  if (from === 0) {
    await client.query(LOCK);
    await client.query(await missingSql(client));
  }
  const { version: to } = await readStore(client, 'the database');
  return { from, to };
}

/**
 * The SQL text that makes the same changes as `migrate`, for an administrator of the database, who can run it with psql. It
 * also grants the current user what a server needs. Empty if nothing is missing.
 *
 * @throws StoreVersionError, StoreError, or an error of the driver
 */
export async function pendingSql(client: SchemaClient): Promise<string> {
  const missing = await missingSql(client);
  if (missing === '') return '';
  const [row] = await rowsOf<{ role: string }>(client, 'select quote_ident(current_user) as role');
  return `begin;
${SEARCH_PATH};
${LOCK};

${missing}
grant usage on schema pets to ${row?.role};
grant select, insert, update, delete on all tables in schema pets to ${row?.role};
grant execute on all functions in schema pets to ${row?.role};
commit;
`;
}

/**
 * Reads which store the database contains, without changing anything.
 *
 * @throws StoreVersionError, StoreError, or an error of the driver
 */
export const readIdentity = async (client: SchemaClient, place = 'the database'): Promise<StoreIdentity> =>
  (await readStore(client, place)).identity;

/**
 * Reads which store the database contains, for a server. Marks the store, so that no copy replaces its id and its secret.
 *
 * @throws StoreVersionError, StoreError, or an error of the driver
 */
export async function openIdentity(client: SchemaClient): Promise<StoreIdentity> {
  const [meta] = await rowsOf<{ isNew: boolean }>(client, 'select opened is null as "isNew" from pets.meta');
  if (meta?.isNew) await client.query('update pets.meta set opened = now() where opened is null');
  return readIdentity(client);
}

async function readStore(
  client: SchemaClient,
  place: string,
): Promise<{ version: number; identity: StoreIdentity }> {
  const { version } = await readState(client);
  if (version === 0) throw new StoreMissingError(place);
  const [identity] = await rowsOf<StoreIdentity>(client, 'select id, secret from pets.meta');
  if (!identity) throw noIdentity();
  return { version, identity };
}

/** The SQL text that creates the store. Empty if there is one. */
async function missingSql(client: SchemaClient): Promise<string> {
  const { version, hasSchema } = await readState(client);
  if (version > 0) return '';
  // IF NOT EXISTS would need the privilege CREATE on the database even if the schema exists.
  return hasSchema ? SCHEMA_SQL : `create schema pets;\n\n${SCHEMA_SQL}`;
}

/**
 * Reads the version of the schema; 0 if there is none.
 *
 * @throws StoreVersionError if this program cannot use the schema
 */
async function readState(client: SchemaClient): Promise<{ version: number; hasSchema: boolean }> {
  // A query of the tables of the catalog sees what another transaction has created while this one waited for the lock.
  const [found] = await rowsOf<{ hasSchema: boolean; hasMeta: boolean }>(
    client,
    `select count(*) > 0 as "hasSchema", count(c.oid) > 0 as "hasMeta"
    from pg_namespace n
    left join pg_class c on c.relnamespace = n.oid and c.relname = 'meta'
    where n.nspname = 'pets'`,
  );
  const { hasSchema = false, hasMeta = false } = found ?? {};
  if (!hasMeta) return { version: 0, hasSchema };
  // Version 1 did not have these columns.
  const [meta] = await rowsOf<{ version: string | null; oldest: string | null }>(
    client,
    `select to_jsonb(meta) ->> 'version' as version, to_jsonb(meta) ->> 'oldest' as oldest from pets.meta`,
  );
  if (!meta) throw noIdentity();
  const version = Number(meta.version ?? 1);
  const oldest = Number(meta.oldest ?? 1);
  if (version < SCHEMA_VERSION) {
    throw new StoreVersionError(
      `the schema pets has version ${version}, which this version of pets does not support; it was not changed`,
      'use another database, or remove the old store: drop schema pets cascade',
    );
  }
  if (oldest > SCHEMA_VERSION) {
    throw new StoreVersionError(
      `the schema pets needs a server that knows version ${oldest}; this version of pets knows ${SCHEMA_VERSION}`,
      'use a newer version of pets; the database was not changed',
    );
  }
  return { version, hasSchema };
}

const noIdentity = (): StoreDamagedError =>
  new StoreDamagedError('the table pets.meta is empty', 'restore the database from a backup');

const OLDEST_SERVER = 150_000;

type ServerSettings = {
  version: string;
  versionNumber: number;
  encoding: string;
  isolation: string;
  fsync: string;
  fullPageWrites: string;
  synchronousCommit: string;
};

/**
 * Checks whether the database server can keep a store. Returns warnings about settings with which a crash can lose
 * acknowledged animals.
 *
 * @throws StoreError, or an error of the driver
 */
export async function checkServer(client: SchemaClient): Promise<string[]> {
  const [settings] = await rowsOf<ServerSettings>(
    client,
    `select
    current_setting('server_version') as version,
    current_setting('server_version_num')::int as "versionNumber",
    current_setting('server_encoding') as encoding,
    current_setting('default_transaction_isolation') as isolation,
    current_setting('fsync') as fsync,
    current_setting('full_page_writes') as "fullPageWrites",
    (select reset_val from pg_settings where name = 'synchronous_commit') as "synchronousCommit"`,
  );
  if (!settings) throw new StoreError('the database returned no settings', 'check the database server');
  const { version, versionNumber, encoding, isolation, fsync, fullPageWrites, synchronousCommit } = settings;
  if (versionNumber < OLDEST_SERVER) {
    throw new StoreError(`the database server has version ${version}`, 'use PostgreSQL 15 or later');
  }
  if (encoding !== 'UTF8') {
    throw new StoreError(
      `the database has the encoding ${encoding}, which cannot store every name`,
      "create the database with ENCODING 'UTF8'",
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

async function rowsOf<Row extends QueryResultRow>(client: SchemaClient, sql: string): Promise<Row[]> {
  return (await client.query<Row>(sql)).rows;
}
