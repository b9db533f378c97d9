import type { Client } from 'pg';
import type { StoreContents, StoredAnimal } from '../contents.ts';
import { StoreError, StoreUnavailableError } from '../errors.ts';
import { readDatabase } from './read-database.ts';
import { migrateInTransaction } from './schema/migrate.ts';
import { STATUS_NUMBERS } from './status-numbers.ts';

/**
 * Writes the contents of a store to a database, in a transaction that `commitCopy` commits. Creates or migrates the schema.
 * If the database contains a store already, it must be empty, and no server must have opened it.
 *
 * @param verify receives what was written
 * @throws StoreError, or an error of the driver
 */
export async function writeDatabase(
  client: Client,
  place: string,
  contents: StoreContents,
  verify: (written: StoreContents) => Promise<void>,
): Promise<void> {
  await client.query('begin isolation level read committed');
  await client.query('set local synchronous_commit = on; set local idle_in_transaction_session_timeout = 0');
  await migrateInTransaction(client);
  // Other transactions can only read. A server that starts waits for the lock, because it marks the row of pets.meta.
  await client.query(
    'lock table pets.meta, pets.animals, pets.orders, pets.idempotency, pets.keys, pets.callers in exclusive mode',
  );
  await requireEmptyDatabase(client, place, contents.report.id);
  await writeAll(client, contents);
  // Without statistics, the planner may read whole tables.
  await client.query('analyze pets.animals, pets.idempotency');
  await verify(await readDatabase(client, place, contents.readAt));
}

async function requireEmptyDatabase(client: Client, place: string, id: string): Promise<void> {
  const { rows } = await client.query<{ id: string; isOpened: boolean; hasRows: boolean }>(
    `select id, opened is not null as "isOpened",
      last_id <> 0
      or exists (select from pets.animals) or exists (select from pets.orders)
      or exists (select from pets.idempotency) or exists (select from pets.keys)
      or exists (select from pets.callers) as "hasRows"
    from pets.meta where one`,
  );
  const [found] = rows;
  const hint = 'copy to another database, or stop all servers and run there: drop schema pets cascade';
  if (found?.id === id) throw new StoreError(`${place} contains this store or a copy of it`, hint);
  if (found?.hasRows) throw new StoreError(`the store in ${place} is not empty`, hint);
  if (found?.isOpened) {
    throw new StoreError(`a server has used the store in ${place}, and would not notice the copy`, hint);
  }
}

async function writeAll(client: Client, contents: StoreContents): Promise<void> {
  const { report, secret, created, nextId, orders, keys, bans } = contents;
  await client.query('update pets.meta set id = $1, secret = $2, created = $3, last_id = $4', [
    report.id,
    secret,
    created,
    nextId - 1n,
  ]);
  await client.query(
    `insert into pets.orders (position, body)
    select n, body from unnest($1::text[]) with ordinality as item (body, n)`,
    [orders],
  );
  for (const { sha256, name, plan, perMinute = null, perDay = null, created } of keys) {
    await client.query(
      `insert into pets.keys (sha256, name, plan, per_minute, per_day, created)
      values (decode($1, 'hex'), $2, $3, $4, $5, $6)`,
      [sha256, name, plan, perMinute, perDay, created],
    );
  }
  await client.query(
    `insert into pets.callers (caller, banned_until)
    select decode(caller, 'hex'), until from unnest($1::text[], $2::bigint[]) as item (caller, until)`,
    [[...bans.keys()], [...bans.values()]],
  );
  for await (const animals of contents.animals()) await writeAnimals(client, animals);
}

async function writeAnimals(client: Client, animals: readonly StoredAnimal[]): Promise<void> {
  await client.query(
    `insert into pets.animals (id, status, body)
    select id, status, body from unnest($1::bigint[], $2::smallint[], $3::text[]) as item (id, status, body)`,
    [
      animals.map(({ id }) => id),
      animals.map(({ status }) => STATUS_NUMBERS[status]),
      animals.map(({ text }) => text),
    ],
  );
  const repeatable = animals.flatMap(({ text, idempotency }) =>
    idempotency ? [{ text, ...idempotency }] : [],
  );
  if (repeatable.length === 0) return;
  await client.query(
    `insert into pets.idempotency (fingerprint, body, response, at)
    select decode(left(hex, 32), 'hex'), decode(substr(hex, 33), 'hex'), response, to_timestamp(at / 1000.0)
    from unnest($1::text[], $2::text[], $3::bigint[]) as item (hex, response, at)`,
    [
      repeatable.map(({ fingerprint }) => fingerprint),
      repeatable.map(({ text }) => text),
      repeatable.map(({ at }) => at),
    ],
  );
}

/** @throws StoreUnavailableError if it is not known whether the transaction was committed, or StoreError if it was not */
export async function commitCopy(client: Client, place: string): Promise<void> {
  const { command } = await client.query('commit').catch((error) => {
    throw new StoreUnavailableError(
      `the connection to ${place} was lost during the commit: the copy is complete, or there is none`,
      `run pets store check ${place}`,
      { cause: error, outcome: 'unknown' },
    );
  });
  // PostgreSQL reports success if it has rolled back a transaction because of an earlier error.
  if (command !== 'COMMIT') throw new StoreError(`${place} has rolled back the copy`, 'try again');
}
