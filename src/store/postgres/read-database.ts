import type { Client } from 'pg';
import { IDEMPOTENCY_KEY_LIFETIME_MS } from '../../contract/idempotency-key.ts';
import { MAX_READ_ANIMALS, MAX_READ_BYTES, type StoreContents, type StoredAnimal } from '../contents.ts';
import { StoreDamagedError } from '../errors.ts';
import { queryOf } from './database.ts';
import { instant, readKeys } from './postgres-keys.ts';
import { readIdentity } from './schema/migrate.ts';
import { STATUSES } from './status-numbers.ts';

const INT64_MIN_TEXT = '-9223372036854775808';

type MetaRow = { created: string; readAt: string; lastIssued: string; animals: string; maxId: string | null };

/**
 * Reads animals from an id on. The last one is that with which the texts reach 1 MiB. Of the animals after that one, only
 * the lengths of the texts are read.
 */
const ANIMALS = `
select id, status, body
from (
  select id, status, body, sum(octet_length(body)) over (order by id) - octet_length(body) as bytes_before
  from (
    select id, status, body from pets.animals where id >= $1 order by id limit ${MAX_READ_ANIMALS}
  ) first_animals
) page
where bytes_before < ${MAX_READ_BYTES}
order by id`;

/** The idempotency keys that had not expired at `readAt`, in the order of the ids in their responses. */
const openIdempotencyKeys = (readAt: number) => `
declare idempotency_keys no scroll cursor for
select encode(known.fingerprint || known.body, 'hex') as fingerprint, known.at, known.id,
  known.response = animal.body as "isText"
from (
  select fingerprint, body, response,
    floor(extract(epoch from at) * 1000)::bigint as at,
    substring(response from '^\\{"id":(-?[0-9]+)')::bigint as id
  from pets.idempotency
) known
left join pets.animals animal using (id)
where known.at > ${readAt - IDEMPOTENCY_KEY_LIFETIME_MS}
order by known.id, known.at`;

type IdempotencyRow = { fingerprint: string; at: string; id: string | null; isText: boolean | null };

/**
 * Reads everything in the store of a database. Call this in a transaction, which must not end before all animals were read.
 *
 * @param readAt the time by which idempotency keys expire, in milliseconds since 1970; null for the clock of the database
 * @throws StoreError, or an error of the driver
 */
export async function readDatabase(
  client: Client,
  place: string,
  readAt: number | null,
): Promise<StoreContents> {
  const { id, secret } = await readIdentity(client);
  const { rows } = await client.query<MetaRow>(
    `select ${instant('created')} as created, last_id as "lastIssued", (select count(*) from pets.animals) as animals,
      (select max(id) from pets.animals) as "maxId",
      coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as "readAt"
    from pets.meta where one`,
    [readAt],
  );
  const meta = rows[0] as MetaRow;
  const lastIssued = BigInt(meta.lastIssued);
  const maxId = meta.maxId === null ? undefined : BigInt(meta.maxId);
  const highest = maxId !== undefined && maxId > lastIssued ? maxId : lastIssued;
  const orders = await client.query<{ body: string }>('select body from pets.orders order by position');
  const bans = await client.query<{ caller: string; until: string }>(
    `select encode(caller, 'hex') as caller, banned_until as until from pets.callers where banned_until > 0`,
  );
  const keys = await readKeys(queryOf(client, place));
  return {
    report: {
      id,
      animals: Number(meta.animals),
      orders: orders.rows.length,
      keys: keys.length,
      lastId: lastIssued > 0n ? highest : maxId,
      sequence: undefined,
      damagedBytes: 0,
    },
    secret,
    created: meta.created,
    nextId: highest + 1n,
    orders: orders.rows.map(({ body }) => body),
    keys,
    bans: new Map(bans.rows.map(({ caller, until }) => [caller, Number(until)])),
    readAt: Number(meta.readAt),
    animals: () => readAnimals(client, Number(meta.readAt)),
  };
}

/** Reads the idempotency keys at the same time as the animals, because both are in the order of the animals' ids. */
async function* readAnimals(client: Client, readAt: number): AsyncGenerator<StoredAnimal[]> {
  await client.query(openIdempotencyKeys(readAt));
  const allKeys = fetchIdempotencyKeys(client);
  let key = (await allKeys.next()).value;
  let from: string | undefined = INT64_MIN_TEXT;
  while (from !== undefined) {
    const { rows } = await client.query<{ id: string; status: number; body: string }>(ANIMALS, [from]);
    const animals: StoredAnimal[] = [];
    for (const { id, status, body } of rows) {
      const animal: StoredAnimal = { id: BigInt(id), status: STATUSES[status] ?? 'available', text: body };
      if (key?.id === id && key.isText) {
        animal.idempotency = { fingerprint: key.fingerprint, at: Number(key.at) };
        key = (await allKeys.next()).value;
      }
      animals.push(animal);
    }
    const last = animals.at(-1);
    if (last) yield animals;
    from = last && nextIdText(last.id);
  }
  // The loop takes the next key only after it has found the animal of `key`. So a key that is left has no animal.
  if (key) {
    throw new StoreDamagedError(
      `the response of an idempotency key in the table pets.idempotency is not the text of an animal (id ${key.id})`,
      'delete that row of pets.idempotency',
    );
  }
  await client.query('close idempotency_keys');
}

/** The next id; undefined after the highest int64. */
const nextIdText = (id: bigint): string | undefined =>
  BigInt.asIntN(64, id + 1n) > id ? `${id + 1n}` : undefined;

async function* fetchIdempotencyKeys(client: Client): AsyncGenerator<IdempotencyRow, undefined> {
  for (;;) {
    const { rows } = await client.query<IdempotencyRow>(`fetch ${MAX_READ_ANIMALS} from idempotency_keys`);
    if (rows.length === 0) return undefined;
    yield* rows;
  }
}
