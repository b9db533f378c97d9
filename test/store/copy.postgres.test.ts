import { expect, test } from 'vitest';
import { copyStore } from '../../src/store/location.ts';
import { writeDatabase } from '../../src/store/postgres/contents.ts';
import { beginSql, inTransaction, SCHEMA_VERSION } from '../../src/store/postgres/database.ts';
import { type ManualClock, manualClock } from '../helpers/clock.ts';
import { databaseLocation } from '../helpers/postgres/backends.ts';
import { createSchema, storeIdOf } from '../helpers/postgres/store-schema.ts';
import { connectTo, freshDatabase, sharedCluster } from '../helpers/postgres.ts';
import {
  type CopyPlace,
  contentsOf,
  describeCopying,
  fill,
  manyAnimals,
  type NewPlace,
  newDirectory,
} from './contract/copying.ts';

/** What is in the schema `pets`; undefined if there is no such schema. */
async function stateOf(url: string) {
  const client = await connectTo(url);
  const { rows } = await client.query("select from pg_namespace where nspname = 'pets'");
  if (rows.length === 0) return undefined;
  const tables = ['meta', 'animals', 'orders', 'idempotency', 'keys', 'callers'];
  const state: Record<string, unknown> = {};
  for (const table of tables) state[table] = (await client.query(`select * from pets.${table}`)).rows;
  return state;
}

async function newDatabase(clock: ManualClock): Promise<CopyPlace & { url: string }> {
  const url = await freshDatabase();
  return {
    url,
    location: await databaseLocation(url, { clock, testTime: clock.now }),
    state: () => stateOf(url),
  };
}

/** A database with an empty schema, such as `pets store migrate` creates. */
const newSchema: NewPlace = async (clock) => {
  const place = await newDatabase(clock);
  await createSchema(await connectTo(place.url));
  return place;
};

describeCopying('from a directory to a database', newDirectory, newDatabase);
describeCopying('from a database to a directory', newDatabase, newDirectory);
describeCopying('from a database to a database with an empty schema', newDatabase, newSchema);

/** Half of a fingerprint. */
const HALF = "decode(repeat('00', 16), 'hex')";

const nameOf = (url: string) => new URL(url).pathname.slice(1);

async function storeToCopy() {
  const clock = manualClock();
  const { location: source } = await newDirectory(clock);
  await fill({ location: source, state: async () => {} }, contentsOf(manyAnimals(2_500), clock));
  return { clock, source, ...(await newDatabase(clock)) };
}

test('a database is as before until the commit, and if the transaction is lost at the commit', async () => {
  const { source, url, state } = await storeToCopy();
  const write = async (end: () => Promise<unknown>) => {
    const client = await connectTo(url);
    await inTransaction(client, url, async () => {
      await source.read((contents) => writeDatabase(client, url, contents, () => {}));
      await end();
    });
  };
  const terminate = () =>
    sharedCluster().sql(
      'postgres',
      `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = '${nameOf(url)}' and state = 'idle in transaction'`,
    );
  await expect(write(terminate)).rejects.toMatchObject({ outcome: 'unknown' });
  expect(await state()).toBeUndefined();
  await write(async () => expect(await state()).toBeUndefined());
  expect(await state()).toBeDefined();
  const failed = await connectTo(url);
  const fail = () => failed.query('nonsense').catch(() => {});
  await expect(inTransaction(failed, url, fail)).rejects.toThrow('has rolled back the transaction');
});

test('a database whose store is not empty is refused and unchanged', async () => {
  const { source, url, location, state } = await storeToCopy();
  const client = await connectTo(url);
  await createSchema(client);
  for (const fill of [
    "insert into pets.animals values (1, 0, '{}')",
    "insert into pets.orders values (1, '{}')",
    `insert into pets.idempotency values (${HALF}, ${HALF}, '', now())`,
    "insert into pets.keys values (sha256(''), 'till', 'free')",
    "insert into pets.callers values (sha256(''))",
    'update pets.meta set last_id = 3',
  ]) {
    await client.query(fill);
    const before = await state();
    await expect(copyStore(source, location), fill).rejects.toThrow(/is not empty$/);
    expect(await state()).toEqual(before);
    await client.query('drop schema pets cascade');
    await createSchema(client);
  }
  await copyStore(source, location);
});

test('during a copy, nothing can be added to the target, and afterwards, nothing by a server of the empty store', async () => {
  const { source, url } = await storeToCopy();
  const copier = await connectTo(url);
  await createSchema(copier);
  const store = `'${await storeIdOf(copier)}', ${SCHEMA_VERSION}`;
  await copier.query(beginSql('read committed'));
  await source.read((contents) => writeDatabase(copier, url, contents, () => {}));
  const statements = [
    "insert into pets.keys values (sha256(''), 'late', 'free')",
    "insert into pets.callers values (sha256(''))",
    `select * from pets.create_animals(${store}, '{0}', '{x}', '{null}', '{null}')`,
    `select * from pets.seed(${store}, '{}', '{}', '{}', '{}')`,
  ];
  for (const statement of statements) {
    const other = await connectTo(url);
    await other.query("set lock_timeout = '20ms'");
    await expect(other.query(statement), statement).rejects.toThrow(/lock timeout/);
  }
  await copier.query('commit');
  for (const statement of statements.slice(2))
    await expect(copier.query(statement), statement).rejects.toThrow(
      /does not contain the store .* any more/,
    );
});

test.each([
  ['animals', "set body = '{' where id = 2500"],
  ['animals', `set body = '{"id":4,"name":"Rex","categoryId":1,"status":"available"}' where id = 3`],
  ['animals', 'set status = 1 where id = 3'],
  ['orders', "set body = '{' where position = 1"],
  ['keys', "set plan = 'x'"],
])(
  'a copy of a damaged database fails as its check does, and copies nothing: %s %s',
  async (table, damage) => {
    const { clock, source, url, location } = await storeToCopy();
    await copyStore(source, location);
    await (await connectTo(url)).query(`update pets.${table} ${damage}`);
    const target = await newDirectory(clock);
    const message = new RegExp(`pets.${table} .*is not valid`);
    await expect(location.check()).rejects.toThrow(message);
    await expect(copyStore(location, target.location)).rejects.toThrow(message);
    expect(await target.state()).toEqual([]);
  },
);
