import { describe, expect, test } from 'vitest';
import { copyStore } from '../../src/store/location.ts';
import { writeDatabase } from '../../src/store/postgres/contents.ts';
import { inTransaction } from '../../src/store/postgres/database.ts';
import { postgresLocation } from '../../src/store/postgres/postgres-location.ts';
import { beginSql, pendingSql, readIdentity, SCHEMA_VERSION } from '../../src/store/postgres/schema.ts';
import { type ManualClock, manualClock } from '../helpers/clock.ts';
import { createSchema, storeIdOf } from '../helpers/postgres/store-schema.ts';
import { connectTo, freshDatabase, sharedCluster } from '../helpers/postgres.ts';
import {
  type CopyPlace,
  collect,
  contentsOf,
  describeCopying,
  fill,
  manyAnimals,
  type NewPlace,
  newDirectory,
  watched,
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

const locationOf = (url: string, clock: ManualClock) =>
  postgresLocation(url, { clock, env: {}, userName: 'pets', testTime: clock.now });

async function newDatabase(clock: ManualClock): Promise<CopyPlace & { url: string }> {
  const url = await freshDatabase();
  return { url, location: locationOf(url, clock), state: () => stateOf(url) };
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

const nameOf = (url: string) => new URL(url).pathname.slice(1);

async function storeToCopy() {
  const clock = manualClock();
  const { location: source } = await newDirectory(clock);
  await fill({ location: source, state: async () => {} }, contentsOf(manyAnimals(2_500), clock));
  return { clock, source, ...(await newDatabase(clock)) };
}

/** Ends the connections of copies to a database. */
const terminate = (url: string) =>
  sharedCluster().sql(
    'postgres',
    `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = '${nameOf(url)}' and state = 'idle in transaction'`,
  );

describe('a database is as before', () => {
  test('after each step at which a copy loses its connection', async () => {
    const { source, url, location, state } = await storeToCopy();
    for (let failing = 0; failing < 4; failing++) {
      let step = 0;
      const next = () => (step++ === failing ? terminate(url) : undefined);
      const copying = copyStore(watched(source, next), location);
      await expect(copying, `step ${failing}`).rejects.toThrow(/terminat|connection/i);
      expect(await state(), `step ${failing}`).toBeUndefined();
    }
  });

  test('until the commit, and if the transaction is lost at the commit', async () => {
    const { source, url, state } = await storeToCopy();
    const write = async (end: () => Promise<unknown>) => {
      const client = await connectTo(url);
      await inTransaction(client, url, async () => {
        await source.read((contents) => writeDatabase(client, url, contents, () => {}));
        await end();
      });
    };
    await expect(write(() => terminate(url))).rejects.toMatchObject({ outcome: 'unknown' });
    expect(await state()).toBeUndefined();
    await write(async () => expect(await state()).toBeUndefined());
    expect(await state()).toBeDefined();
    const failed = await connectTo(url);
    const fail = () => failed.query('nonsense').catch(() => {});
    await expect(inTransaction(failed, url, fail)).rejects.toThrow('has rolled back the transaction');
  });
});

describe('a database is refused and unchanged', () => {
  test.each([
    ['an animal', "insert into pets.animals values (1, 0, '{}')"],
    ['an order', "insert into pets.orders values (1, '{}')"],
    [
      'an idempotency key',
      `insert into pets.idempotency values (decode(repeat('00', 16), 'hex'), decode(repeat('00', 16), 'hex'), '', now())`,
    ],
    ['an API key', "insert into pets.keys values (sha256(''), 'till', 'free')"],
    ['a caller', "insert into pets.callers values (sha256(''))"],
    ['lost ids', 'update pets.meta set last_id = 3'],
  ])('with %s', async (_, sql) => {
    const { source, url, location, state } = await storeToCopy();
    const client = await connectTo(url);
    await createSchema(client);
    await client.query(sql);
    const before = await state();
    await expect(copyStore(source, location)).rejects.toMatchObject({
      message: expect.stringMatching(/is not empty$/),
      hint: 'copy to another database',
    });
    expect(await state()).toEqual(before);
  });

  test('with the store itself, by another address', async () => {
    const { clock, source, url, location, state } = await storeToCopy();
    await copyStore(source, location);
    const before = await state();
    const other = locationOf(url.replace('127.0.0.1', 'localhost'), clock);
    await expect(copyStore(location, other)).rejects.toThrow(/is not empty$/);
    expect(await state()).toEqual(before);
  });
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

test('a copy does not depend on the order of idempotency keys in the table', async () => {
  const { url, location, clock } = await storeToCopy();
  const animals = manyAnimals(3).map((each) => ({
    ...each,
    idempotency: { key: `${each.id}`.repeat(32), body: `${each.id}`.repeat(32), at: clock.now() },
  }));
  await location.write(contentsOf(animals, clock), () => {});
  const expected = await location.read(collect);
  // An update moves the row of the first animal to the end of the table.
  await (await connectTo(url)).query(`update pets.idempotency set at = at where response like '{"id":1,%'`);
  expect(await location.read(collect)).toEqual(expected);
});

test('a user who may not change the schema can copy to it', async () => {
  const { source, url, location } = await storeToCopy();
  const client = await connectTo(url);
  const sql = await pendingSql(client);
  await sharedCluster().sql('postgres', `revoke create on database ${nameOf(url)} from public`);
  await sharedCluster().sql(nameOf(url), sql);
  await copyStore(source, location);
  expect(await readIdentity(client)).toMatchObject({ id: (await source.check()).id });
});

describe('a check of a database and copies of it fail with the same error, and nothing is copied', () => {
  const ANIMAL = /^\S+ is damaged: a row of pets.animals \(id 3\) is not valid$/;
  const setBody = (body: string) => `update pets.animals set body = '${body}' where id = 3`;
  test.each<[string, string, RegExp]>([
    ['an animal that is not JSON', setBody('{oops'), ANIMAL],
    [
      'an animal with another id in its JSON',
      setBody('{"id":4,"name":"Rex","categoryId":1,"status":"available"}'),
      ANIMAL,
    ],
    ['an animal with another status', 'update pets.animals set status = 1 where id = 3', ANIMAL],
    ['an animal without a name', setBody('{"id":3,"categoryId":1,"status":"available"}'), ANIMAL],
    [
      'an animal after the first batch',
      `update pets.animals set body = '{' where id = 2500`,
      /pets.animals \(id 2500\)/,
    ],
    ['an order that is not JSON', `update pets.orders set body = '{' where position = 1`, /\(order 1\)/],
    ['a key that is not valid', `update pets.keys set plan = 'x'`, /pets.keys/],
    [
      'the response of an idempotency key that is not an animal',
      `insert into pets.idempotency values (decode(repeat('00', 16), 'hex'), decode(repeat('00', 16), 'hex'), '{"id":9', now() + interval '10 years')`,
      /pets.idempotency/,
    ],
  ])('because of %s', async (_, sql, message) => {
    const { clock, source, url, location } = await storeToCopy();
    await copyStore(source, location);
    await (await connectTo(url)).query(sql);
    const targets = [await newDatabase(clock), await newDirectory(clock)];
    const attempts = [location.check(), ...targets.map((target) => copyStore(location, target.location))];
    const [checked, ...copies] = await Promise.all(
      attempts.map((attempt) => attempt.catch((error: unknown) => error)),
    );
    expect(checked).toMatchObject({ name: 'StoreError', message: expect.stringMatching(message) });
    expect(copies).toEqual([checked, checked]);
    expect(await Promise.all(targets.map(({ state }) => state()))).toEqual([undefined, []]);
  });
});
