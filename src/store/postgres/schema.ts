import { readFileSync } from 'node:fs';
import type { ClientBase } from 'pg';
import { StoreError, storeMissingError } from '../errors.ts';

/** Identifies the store in a database. `secret` salts the fingerprints of idempotency keys. */
export type StoreIdentity = { id: string; secret: string };

/** The version of the schema that this program creates, and that its calls need. `tables.sql` stores it. */
export const SCHEMA_VERSION = 6;

// The build replaces each of these calls with the text of the file.
const CREATE_SQL = [
  'create schema pets;\n',
  readFileSync(new URL('sql/tables.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/create.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/read.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/limits.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/maintenance.sql', import.meta.url), 'utf8'),
].join('\n');

/**
 * Sets where names without a schema are looked up. In some databases, every role may create functions and operators in
 * `public`, which could replace those of PostgreSQL for other roles. Temporary objects could too, so they come last.
 */
const SEARCH_PATH = 'set local search_path = pg_catalog, pg_temp';

/** Waits until no other transaction creates a store. The number of the lock is the letters `pets`. */
const LOCK = 'select pg_catalog.pg_advisory_xact_lock(1885697139::bigint)';

export type Isolation = 'read committed' | 'repeatable read read only';

/**
 * The SQL that begins a transaction for anything but the short calls of a server. It replaces the time limits of the
 * database role, which may be set for short calls through pgbouncer. The commit waits until the changes are durable.
 */
export const beginSql = (isolation: Isolation): string =>
  `begin isolation level ${isolation};
${SEARCH_PATH};
set local statement_timeout = 0;
set local lock_timeout = '4s';
set local idle_in_transaction_session_timeout = 0;
set local synchronous_commit = on`;

/**
 * Creates the store if the database contains none. Call this in a READ COMMITTED transaction. Until the transaction
 * has ended, no other program can create the store. If the store exists, the privileges of a server are enough.
 *
 * @returns whether it created the store
 * @throws StoreError, for example if the schema has another version, or an error of the driver
 */
export async function createStoreIfMissing(client: ClientBase): Promise<boolean> {
  if (await readStore(client)) return false;
  await client.query(LOCK);
  if (await readStore(client)) return false;
  await client.query(CREATE_SQL);
  return true;
}

/**
 * The SQL text that makes the same changes as `createStoreIfMissing`, for an administrator of the database, who can run
 * it with psql. It also grants the current role what a server needs. Empty if nothing is missing.
 *
 * @throws StoreError, or an error of the driver
 */
export async function pendingSql(client: ClientBase): Promise<string> {
  if (await readStore(client)) return '';
  const { rows } = await client.query<{ role: string }>('select quote_ident(current_user) as role');
  const role = rows[0]?.role;
  return `begin;
${SEARCH_PATH};
${LOCK};

${CREATE_SQL}
grant usage on schema pets to ${role};
grant select, insert, update, delete on all tables in schema pets to ${role};
grant execute on all functions in schema pets to ${role};
commit;
`;
}

/**
 * Reads which store the database contains, without changing anything.
 *
 * @throws StoreError (with the code `missing` if there is none), or an error of the driver
 */
export async function readIdentity(client: ClientBase, place = 'the database'): Promise<StoreIdentity> {
  const store = await readStore(client);
  if (!store) throw storeMissingError(place);
  return store;
}

/** Undefined if there is no store. @throws StoreError if this program cannot use it, or an error of the driver */
async function readStore(client: ClientBase): Promise<StoreIdentity | undefined> {
  // After a wait for the lock, this query sees the table that another transaction has created. `to_regclass` would not.
  const tables = await client.query(
    "select from pg_class where relname = 'meta' and relnamespace = (select oid from pg_namespace where nspname = 'pets')",
  );
  if (tables.rows.length === 0) return undefined;
  // JSON, because another version may have other columns.
  const { rows } = await client.query<{ store: StoreIdentity & { version?: number } }>(
    'select to_jsonb(meta) as store from pets.meta',
  );
  const meta = rows[0];
  if (!meta) throw new StoreError('the table pets.meta is empty', 'restore the database from a backup');
  if (meta.store.version !== SCHEMA_VERSION) {
    throw new StoreError(
      `the schema pets has version ${meta.store.version}, but this version of pets needs ${SCHEMA_VERSION}; it was not changed`,
      'use the version of pets that created it, or another database; or delete the store with all its data: drop schema pets cascade',
    );
  }
  return { id: meta.store.id, secret: meta.store.secret };
}
