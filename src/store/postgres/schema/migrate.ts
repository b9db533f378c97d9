import type { ClientBase } from 'pg';
import type { Migration } from '../../backend.ts';
import { StoreDamagedError, StoreError, StoreUnavailableError, StoreVersionError } from '../../errors.ts';
import { SCHEMA_STEPS, type SchemaStep } from './schema.ts';

/** One connection to the database. */
export type SchemaClient = Pick<ClientBase, 'query'>;

/** The store in a database. `secret` salts the fingerprints of idempotency keys. */
export type StoreIdentity = { id: string; secret: string };

/** `version` is the number of steps that were applied. */
type SchemaState = { version: number; hasSchema: boolean };

/** Identifies the lock that keeps migrations apart: the letters `pets`. */
const LOCK = 0x70_65_74_73;
const PERMISSION_DENIED = '42501';
const LOCK_TIMEOUT = '55P03';

/**
 * Creates the schema `pets`, or applies the steps that it does not have. Applies either all of them or none. If no step is
 * missing, the privileges of a server are enough.
 *
 * @throws StoreDamagedError if the row that identifies the store is missing
 * @throws StoreVersionError if this version of the program is too old for the schema, StoreError, or an error of the driver
 */
export async function migrate(client: SchemaClient, steps = SCHEMA_STEPS): Promise<Migration> {
  const { version: from } = await readState(client, steps);
  if (from < steps.length) await applyMissing(client, steps);
  const { version: to } = await readStore(client, steps);
  return { from, to };
}

/**
 * The SQL text that makes the same changes as `migrate`, for an administrator of the database, who can run it with psql. It
 * also grants the current user what a server needs. Empty if nothing is missing.
 *
 * @throws StoreVersionError, StoreError, or an error of the driver
 */
export async function pendingSql(client: SchemaClient, steps = SCHEMA_STEPS): Promise<string> {
  const missing = await missingSql(client, steps);
  if (missing === '') return '';
  const [row] = await rowsOf<{ role: string }>(client, 'select quote_ident(current_user) as role');
  return `begin;
select pg_advisory_xact_lock(${LOCK});

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
export const readIdentity = async (client: SchemaClient, steps = SCHEMA_STEPS): Promise<StoreIdentity> =>
  (await readStore(client, steps)).identity;

async function readStore(
  client: SchemaClient,
  steps: readonly SchemaStep[],
): Promise<{ version: number; identity: StoreIdentity }> {
  const { version } = await readState(client, steps);
  if (version === 0) {
    throw new StoreError('the database contains no store', 'pets serve creates one');
  }
  if (version < steps.length) {
    throw new StoreVersionError(
      `the schema pets has version ${version}, but this version of pets needs version ${steps.length}`,
      'run pets store migrate',
    );
  }
  const [identity] = await rowsOf<StoreIdentity>(client, 'select id, secret from pets.meta');
  if (!identity) {
    throw new StoreDamagedError('the table pets.meta is empty', 'restore the database from a backup');
  }
  return { version, identity };
}

async function applyMissing(client: SchemaClient, steps: readonly SchemaStep[]): Promise<void> {
  // After the wait for the lock, the next statement must see what another server has committed.
  await client.query('begin isolation level read committed');
  try {
    await migrateInTransaction(client, steps);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

/**
 * Like `migrate`, in a transaction with the isolation level READ COMMITTED that the caller has begun and ends. Until then,
 * no other program can change the schema.
 */
export async function migrateInTransaction(client: SchemaClient, steps = SCHEMA_STEPS): Promise<void> {
  try {
    await client.query(`set local lock_timeout = '4s'; set local statement_timeout = 0`);
    await client.query(`select pg_advisory_xact_lock(${LOCK})`);
    await client.query(await missingSql(client, steps));
  } catch (error) {
    throw migrationError(error);
  }
}

/**
 * Reads which store the database contains, for a server. Marks the store, so that no copy replaces its id and its secret.
 *
 * @throws StoreVersionError, StoreError, or an error of the driver
 */
export async function openIdentity(client: SchemaClient): Promise<StoreIdentity> {
  const [meta] = await rowsOf<{ isNew: boolean }>(client, 'select opened is null as "isNew" from pets.meta');
  if (meta?.isNew) {
    await client.query(
      `begin; set local lock_timeout = '4s'; update pets.meta set opened = now() where opened is null; commit`,
    );
  }
  return readIdentity(client);
}

function migrationError(error: unknown): unknown {
  const { code, message } = error as { code?: string; message: string };
  if (code === PERMISSION_DENIED) {
    return new StoreError(
      `cannot change the schema pets: ${message}`,
      'grant the user CREATE on the database, or let its owner run the output of: pets store migrate --dry-run',
      { cause: error },
    );
  }
  if (code === LOCK_TIMEOUT) {
    return new StoreUnavailableError(
      'cannot change the schema pets: another program is changing it',
      'try again; pg_locks shows the program that has the advisory lock',
      { cause: error, outcome: 'not_done' },
    );
  }
  return error;
}

/** The SQL text of all steps that the schema does not have. Empty if nothing is missing. */
async function missingSql(client: SchemaClient, steps: readonly SchemaStep[]): Promise<string> {
  const { version, hasSchema } = await readState(client, steps);
  const sql = steps.slice(version).map(
    (step, i) => `-- Version ${version + i + 1} of the schema.
${step.sql}
insert into pets.schema_version (version, oldest) values (${version + i + 1}, ${step.oldest});
`,
  );
  if (sql.length === 0) return '';
  // IF NOT EXISTS would need the privilege CREATE on the database even if the schema exists.
  return [...(hasSchema ? [] : ['create schema pets;\n']), ...sql].join('');
}

/** @throws StoreVersionError if the program is too old for the schema */
async function readState(client: SchemaClient, steps: readonly SchemaStep[]): Promise<SchemaState> {
  const [found] = await rowsOf<{ hasSchema: boolean; hasTables: boolean }>(
    client,
    `select count(*) > 0 as "hasSchema", count(c.oid) > 0 as "hasTables"
    from pg_namespace n
    left join pg_class c on c.relnamespace = n.oid and c.relname = 'schema_version'
    where n.nspname = 'pets'`,
  );
  const { hasSchema = false, hasTables = false } = found ?? {};
  if (!hasTables) return { version: 0, hasSchema };
  const [last] = await rowsOf<{ version: number; oldest: number }>(
    client,
    'select version, oldest from pets.schema_version order by version desc limit 1',
  );
  if (!last) {
    throw new StoreDamagedError(
      'the table pets.schema_version is empty',
      'restore the database from a backup; nothing was changed',
    );
  }
  const { version, oldest } = last;
  if (oldest > steps.length) {
    throw new StoreVersionError(
      `the schema pets needs a server that knows version ${oldest}; this version of pets knows ${steps.length}`,
      'use a newer version of pets; the database was not changed',
    );
  }
  return { version, hasSchema };
}

async function rowsOf<Row>(client: SchemaClient, sql: string): Promise<Row[]> {
  const { rows } = await client.query(sql);
  return rows;
}
