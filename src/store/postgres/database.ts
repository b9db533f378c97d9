import { readFileSync } from 'node:fs';
import type { Client, ClientBase, QueryResultRow } from 'pg';
import { StoreError, StoreUnavailableError, storeMissingError } from '../errors.ts';
import type { PrimaryConnector } from './connector.ts';
import { callFailure, connectFailure, watchCommit } from './failures.ts';
import type { Statement } from './pool.ts';

/** Identifies the store in a database. `secret` salts the fingerprints of idempotency keys. */
export type StoreIdentity = { id: string; secret: string };

/** The version of the schema that this program creates, and that its calls need. `tables.sql` stores it. */
export const SCHEMA_VERSION = 6;

// The build replaces each of these calls with the text of the file.
const CREATE_SQL = [
  'create schema pets;\n',
  readFileSync(new URL('sql/tables.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/animals.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/limits.sql', import.meta.url), 'utf8'),
  readFileSync(new URL('sql/maintenance.sql', import.meta.url), 'utf8'),
].join('\n');

/**
 * Sets where names without a schema are looked up. In some databases, every role may create functions and operators in
 * `public`, which could replace those of PostgreSQL for other roles. Temporary tables could hide others, so they come last.
 */
const SEARCH_PATH = 'set local search_path = pg_catalog, pg_temp';

/** Waits until no other transaction creates a store. The number of the lock is the word `pets` in ASCII. */
const LOCK = 'select pg_catalog.pg_advisory_xact_lock(1885697139::bigint)';

export type Isolation = 'read committed' | 'repeatable read read only';

/**
 * The SQL that begins a transaction for anything but the short calls of a server. It replaces the role's time limits for
 * statements, locks and idle transactions, which may be set for short calls. The commit waits until changes are durable.
 */
export const beginSql = (isolation: Isolation): string =>
  `begin isolation level ${isolation};
${SEARCH_PATH};
set local statement_timeout = 0;
set local lock_timeout = '4s';
set local idle_in_transaction_session_timeout = 0;
set local synchronous_commit = on;
set local client_min_messages = warning`;

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
 * it with psql. It also grants the current role what a server needs. Empty if the store exists.
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
export async function readIdentity(client: ClientBase, place: string): Promise<StoreIdentity> {
  const store = await readStore(client);
  if (!store) throw storeMissingError(place);
  return store;
}

/** Undefined if there is no store. @throws StoreError if this program cannot use it, or an error of the driver */
async function readStore(client: ClientBase): Promise<StoreIdentity | undefined> {
  // If the caller has waited for a lock, this query sees tables that were created meanwhile. `to_regclass` may not.
  const tables = await client.query(
    "select from pg_class where relname = 'meta' and relnamespace = (select oid from pg_namespace where nspname = 'pets')",
  );
  if (tables.rows.length === 0) return undefined;
  // Read the row as JSON, because another version of the schema may have other columns.
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

/** How long `runTransaction` waits for a connection, in milliseconds. */
const CONNECT_TIMEOUT_MS = 4_000;

type TransactionOptions = {
  /** By default, `read committed`. */
  isolation?: Isolation;
  /** If aborted, the connection is closed. */
  signal?: AbortSignal | undefined;
  /** After this time, in milliseconds, the connection is closed. */
  timeout?: number;
};

/**
 * Opens a connection, runs a task in a transaction, commits, and closes the connection. After an error, nothing was
 * changed, unless the error is a StoreUnavailableError with the outcome `unknown`.
 *
 * @throws StoreUnavailableError if the database cannot be reached, another StoreError, to which other errors of the
 * task are converted, or the reason of `signal`
 */
export async function runTransaction<Result>(
  connector: PrimaryConnector,
  task: (client: Client) => Promise<Result>,
  { isolation, signal, timeout }: TransactionOptions = {},
): Promise<Result> {
  signal?.throwIfAborted();
  const { place } = connector.target;
  const options = { timeout: CONNECT_TIMEOUT_MS, isServer: false, signal };
  const client = await connector.connect(options).catch((error) => {
    signal?.throwIfAborted();
    throw connectFailure(error, place);
  });
  const stop = () => void client.connection.stream.destroy();
  signal?.addEventListener('abort', stop);
  const timer = timeout === undefined ? undefined : setTimeout(stop, timeout);
  try {
    return await inTransaction(client, place, () => task(client), isolation);
  } catch (error) {
    const isUnknown = error instanceof StoreUnavailableError && error.outcome === 'unknown';
    if (!isUnknown) signal?.throwIfAborted();
    throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
    await client.end().catch(() => {});
  }
}

/**
 * Runs a task in a transaction on an open connection, and commits. The caller closes the connection after an error.
 *
 * @throws StoreUnavailableError with the outcome `unknown` if it is not known whether the transaction was committed, or
 * another StoreError if it was not
 */
export async function inTransaction<Result>(
  client: Client,
  place: string,
  task: () => Promise<Result>,
  isolation: Isolation = 'read committed',
): Promise<Result> {
  const begun = client.query(beginSql(isolation));
  const result = await begun.then(task).catch((error) => {
    throw error instanceof StoreError ? error : callFailure(error, place, 'not_done');
  });
  const endWatch = watchCommit(client);
  const committed = client.query('commit').then(({ command }) => {
    const problem = endWatch();
    if (problem) throw problem;
    return command;
  });
  const command = await committed.catch((error) => {
    throw new StoreUnavailableError(
      `the commit at ${place} was not confirmed: the change may have been stored`,
      'check whether the store contains the change before you repeat it; a failover can undo it until a replica has it',
      { cause: error, outcome: 'unknown' },
    );
  });
  // PostgreSQL reports success if it has rolled back a transaction because of an earlier error.
  if (command !== 'COMMIT') throw new StoreError(`${place} has rolled back the transaction`, 'try again');
  return result;
}

/** Calls a function of the schema `pets`, and returns its rows. A single value is in the column `result`. */
export type FunctionCaller = <Row extends QueryResultRow>(
  name: string,
  ...values: readonly unknown[]
) => Promise<Row[]>;

/** How a running server uses the store in a database. */
export type DatabaseForServer = {
  /** Each call is a transaction of its own, and ends within about two seconds. */
  call: FunctionCaller;
  /** Like `call`, but without a time limit. */
  callWithoutLimit: FunctionCaller;
  /** The time that replaces the clock of the database in tests, in milliseconds since the epoch; otherwise null. */
  testTime(): number | null;
  /** Completes the calls in flight. Later calls are rejected. */
  close(): Promise<void>;
};

/**
 * The statement that calls a function of the schema `pets`. The function refuses the call on a standby server, or if
 * the store or the version of the schema differs. The `search_path` has no effect on the statement.
 */
export function statementForCall(name: string, storeId: string, values: readonly unknown[]): Statement {
  const all = [storeId, SCHEMA_VERSION, ...values];
  const parameters = all.map((_, i) => `$${i + 1}`).join(', ');
  // With this setting, those of the role or the database cannot hide the warning that `watchCommit` looks for.
  const show = "pg_catalog.set_config('client_min_messages', 'warning', true)";
  return { name, text: `select result.* from pets.${name}(${parameters}) as result, ${show}`, values: all };
}

/** Returns a function that calls functions of the schema `pets` on one connection, without a time limit. */
export const createFunctionCaller =
  (client: Client, storeId: string): FunctionCaller =>
  async (name, ...values) => {
    const statement = statementForCall(name, storeId, values);
    return (await client.query(statement.text, statement.values)).rows;
  };
