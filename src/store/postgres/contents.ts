import type { Client, QueryResult } from 'pg';
import * as z from 'zod/mini';
import { IDEMPOTENCY_KEY_LIFETIME_MS } from '../../contract/headers.ts';
import { describeIssues, tryParseJson } from '../../contract/json.ts';
import { Pet, petJson } from '../../contract/schemas.ts';
import {
  MAX_READ_ANIMALS,
  READ_BATCH_BYTES,
  type StoreContents,
  type StoredAnimal,
  type StoredIdempotencyKey,
} from '../backend.ts';
import { StoreError } from '../errors.ts';
import { type KeyOrError, type KeyTable, requireValidKeys, type StoredBans, StoredKey } from '../keys.ts';
import type { Fingerprint, StoreReport } from '../store.ts';
import { createFunctionCaller, createStoreIfMissing, type FunctionCaller, readIdentity } from './database.ts';
import { STATUS_NUMBERS, STATUSES } from './postgres-store.ts';

// Reads and writes the contents of a database for commands: everything for copies and checks, and the API keys. (Servers
// use postgres-store.ts, and `readKeys`.) Functions with the parameter `client` must be called in a transaction.

type MetaRow = { readAt: string; lastId: string; animals: string };

/** Reads at most `MAX_READ_ANIMALS` animals after an id. The batch ends when its texts have reached `READ_BATCH_BYTES`. */
const ANIMALS = `
select id, status, body
from (
  select id, status, body, sum(octet_length(body)) over (order by id) - octet_length(body) as bytes_before
  from (
    select id, status, body from pets.animals where id > $1 order by id limit ${MAX_READ_ANIMALS}
  ) first_animals
) page
where bytes_before < ${READ_BATCH_BYTES}
order by id`;

type AnimalRow = { id: string; status: number; body: string };

/**
 * Reads and verifies everything in the store of a database: the text of each animal must be the one that the service
 * writes for its values. The result reads the animals later, so the transaction must not end before that.
 *
 * @param readAt idempotency keys that have expired at this time are left out; in milliseconds since the epoch, or null
 * for the current time of the database
 * @throws StoreError, or an error of the driver, even while the animals of the result are read
 */
export async function readDatabase(
  client: Client,
  place: string,
  readAt: number | null,
): Promise<StoreContents> {
  const { id, secret } = await readIdentity(client, place);
  const { rows } = await client.query<MetaRow>(
    `select (select count(*) from pets.animals) as animals,
      greatest(last_id, (select max(id) from pets.animals)) as "lastId",
      coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as "readAt"
    from pets.meta where one`,
    [readAt],
  );
  const meta = rows[0] as MetaRow;
  const lastId = BigInt(meta.lastId);
  const { rows: orderRows } = await client.query<{ body: string }>(
    'select body from pets.orders order by position',
  );
  const orders = orderRows.map(({ body }) => body);
  for (const [i, order] of orders.entries())
    if (tryParseJson(order) === undefined) throw damagedRowError(place, `pets.orders (order ${i + 1})`);
  const keys = requireValidKeys(await readKeys(createFunctionCaller(client, id)));
  return {
    report: {
      id,
      animals: Number(meta.animals),
      orders: orders.length,
      keys: keys.length,
      lastId: lastId > 0n ? lastId : undefined,
      sequence: undefined,
      tornEnd: undefined,
    },
    secret,
    nextId: lastId + 1n,
    orders,
    keys,
    bans: await readBans(client),
    readAt: Number(meta.readAt),
    animals: () => readAnimals(client, place, Number(meta.readAt)),
  };
}

async function* readAnimals(client: Client, place: string, readAt: number): AsyncGenerator<StoredAnimal[]> {
  const keys = await readIdempotencyKeys(client, readAt);
  for (let lastId: string | undefined = '0'; lastId !== undefined; ) {
    const { rows }: QueryResult<AnimalRow> = await client.query(ANIMALS, [lastId]);
    const animals = rows.map((row): StoredAnimal => {
      const [id, text] = [BigInt(row.id), row.body];
      const status = STATUSES[row.status] ?? 'available';
      const { data } = Pet.safeParse(tryParseJson(text));
      if (data?.id !== id || petJson({ ...data, status }) !== text)
        throw damagedRowError(place, `pets.animals (id ${id})`);
      const idempotency = keys.get(text);
      keys.delete(text);
      return { id, status, text, idempotency };
    });
    if (animals.length > 0) yield animals;
    lastId = rows.at(-1)?.id;
  }
  if (keys.size > 0) throw wrongKeysError(keys.size);
}

/** Reads the idempotency keys that had not expired at `readAt`, by their responses, which are texts of animals. */
async function readIdempotencyKeys(
  client: Client,
  readAt: number,
): Promise<Map<string, StoredIdempotencyKey>> {
  const { rows } = await client.query<Fingerprint & { at: string; response: string }>(
    `select encode(fingerprint, 'hex') as key, encode(body, 'hex') as body,
      floor(extract(epoch from at) * 1000)::bigint as at, response
    from pets.idempotency where floor(extract(epoch from at) * 1000) > $1`,
    [readAt - IDEMPOTENCY_KEY_LIFETIME_MS],
  );
  const keys = new Map(rows.map(({ key, body, at, response }) => [response, { key, body, at: Number(at) }]));
  if (keys.size < rows.length) throw wrongKeysError(rows.length - keys.size);
  return keys;
}

const wrongKeysError = (count: number): StoreError =>
  new StoreError(
    `wrong rows in the table pets.idempotency: ${count}; each response must be the text of an animal in pets.animals, and occur once`,
    'wait 24 hours until they expire, or: delete from pets.idempotency where response not in (select body from pets.animals); a client that repeats such a request can then add its animal again',
  );

const damagedRowError = (place: string, row: string): StoreError =>
  new StoreError(
    `${place} is damaged: a row of ${row} is not valid`,
    'restore the database from a backup; nothing was changed',
  );

/**
 * Writes the contents of a store to a database, in a transaction that the caller commits. Creates the schema if needed.
 * If the database contains a store already, it must be empty.
 *
 * @param accept receives what was written
 * @throws StoreError, an error of the driver, or the errors of `contents` and `accept`
 */
export async function writeDatabase(
  client: Client,
  place: string,
  contents: StoreContents,
  accept: (written: StoreReport) => void,
): Promise<void> {
  await createStoreIfMissing(client);
  // Other transactions can only read. Afterwards, a server of the empty store is refused, because the id has changed.
  await client.query(
    'lock table pets.meta, pets.animals, pets.orders, pets.idempotency, pets.keys, pets.callers in exclusive mode',
  );
  await requireEmptyDatabase(client, place);
  await writeAll(client, contents);
  // Without statistics, the planner may read whole tables.
  await client.query('analyze pets.animals, pets.idempotency');
  accept((await readDatabase(client, place, contents.readAt)).report);
}

async function requireEmptyDatabase(client: Client, place: string): Promise<void> {
  const { rows } = await client.query<{ hasRows: boolean }>(
    `select last_id <> 0
      or exists (select from pets.animals) or exists (select from pets.orders)
      or exists (select from pets.idempotency) or exists (select from pets.keys)
      or exists (select from pets.callers) as "hasRows"
    from pets.meta where one`,
  );
  // The hint does not say how to delete the store, because the source may be the same store under another address.
  if (rows[0]?.hasRows)
    throw new StoreError(`the store in ${place} is not empty`, 'copy to another database');
}

async function writeAll(client: Client, contents: StoreContents): Promise<void> {
  const { report, secret, nextId, orders, keys, bans } = contents;
  const meta = [report.id, secret, nextId - 1n];
  await client.query('update pets.meta set id = $1, secret = $2, last_id = $3', meta);
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
    select decode(key, 'hex'), decode(item.body, 'hex'), response, to_timestamp(at / 1000.0)
    from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as item (key, body, response, at)`,
    [
      repeatable.map(({ key }) => key),
      repeatable.map(({ body }) => body),
      repeatable.map(({ text }) => text),
      repeatable.map(({ at }) => at),
    ],
  );
}

type KeyRow = {
  name: string;
  plan: string;
  per_minute: string | null;
  per_day: string | null;
  sha256: string;
  created: string;
};

/** Reads the API keys of a store. @throws the error of the call */
export async function readKeys(call: FunctionCaller): Promise<KeyOrError[]> {
  return (await call<KeyRow>('list_keys')).map(parseKey);
}

/** Reads the end of each ban, by the SHA-256 of the key, in a transaction of `runTransaction`. */
async function readBans(client: Client): Promise<StoredBans> {
  const { rows } = await client.query<{ caller: string; until: string }>(
    `select encode(caller, 'hex') as caller, banned_until as until from pets.callers where banned_until > 0`,
  );
  return new Map(rows.map(({ caller, until }) => [caller, Number(until)]));
}

/** The API keys in the table `pets.keys`, in a transaction of `runTransaction`. */
export const postgresKeys = (client: Client, storeId: string): KeyTable => ({
  read: () => readKeys(createFunctionCaller(client, storeId)),
  bans: () => readBans(client),
  // The database sets the time of creation.
  async add({ sha256, name, plan, perMinute = null, perDay = null }) {
    const { rowCount } = await client.query(
      `insert into pets.keys (sha256, name, plan, per_minute, per_day)
      values (decode($1, 'hex'), $2, $3, $4, $5) on conflict do nothing`,
      [sha256, name, plan, perMinute, perDay],
    );
    return rowCount !== 0;
  },
  async remove(name) {
    const { rowCount } = await client.query('delete from pets.keys where name = $1', [name]);
    return rowCount !== 0;
  },
});

function parseKey({ per_minute: perMinute, per_day: perDay, created, ...row }: KeyRow): KeyOrError {
  const parsed = z.safeParse(StoredKey, {
    ...row,
    created: new Date(Number(created)).toISOString(),
    ...(perMinute !== null && { perMinute: Number(perMinute) }),
    ...(perDay !== null && { perDay: Number(perDay) }),
  });
  if (parsed.success) return parsed.data;
  const error = new StoreError(
    `the key ${JSON.stringify(row.name)} in the table pets.keys is not valid: ${describeIssues(parsed.error)}`,
    'revoke the key, then create a new one',
  );
  return { name: row.name, error };
}
