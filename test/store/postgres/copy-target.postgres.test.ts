import { describe, expect, test } from 'vitest';
import { copyStore } from '../../../src/store/copy-store.ts';
import { writeDatabase } from '../../../src/store/postgres/contents.ts';
import { beginTransaction, openIdentity, SCHEMA_VERSION } from '../../../src/store/postgres/schema.ts';
import { copyFixture, many, stateOf } from '../../helpers/postgres/copy-fixture.ts';
import { createSchema, storeIdOf } from '../../helpers/postgres/store-schema.ts';
import { connectTo, freshDatabase, sharedCluster } from '../../helpers/postgres.ts';
import { addAnimals } from '../../helpers/store-copy.ts';

describe('a database is refused and unchanged', () => {
  test.each<[string, string, RegExp]>([
    ['an animal', "insert into pets.animals values (1, 0, '{}')", /is not empty$/],
    ['an order', "insert into pets.orders values (1, '{}')", /is not empty$/],
    [
      'an idempotency key',
      `insert into pets.idempotency values (decode(repeat('00', 16), 'hex'), decode(repeat('00', 16), 'hex'), '', now())`,
      /is not empty$/,
    ],
    ['an API key', "insert into pets.keys values (sha256(''), 'till', 'free')", /is not empty$/],
    ['a caller', "insert into pets.callers values (sha256(''))", /is not empty$/],
    ['lost ids', 'update pets.meta set last_id = 3', /is not empty$/],
  ])('with %s', async (_, sql, message) => {
    const { at, directoryWith } = await copyFixture();
    const source = await directoryWith(addAnimals);
    const url = await freshDatabase();
    const client = await connectTo(url);
    await createSchema(client);
    await client.query(sql);
    const before = await stateOf(url);
    await expect(copyStore(source, at(url))).rejects.toMatchObject({
      message: expect.stringMatching(message),
      hint: expect.stringContaining('drop schema pets cascade'),
    });
    expect(await stateOf(url)).toEqual(before);
  });

  test('with an empty store that a server has opened', async () => {
    const { at, openServer, directoryWith } = await copyFixture();
    const source = await directoryWith(addAnimals);
    const url = await freshDatabase();
    await (await openServer(at(url))).close();
    const before = await stateOf(url);
    await expect(copyStore(source, at(url))).rejects.toThrow(/a server has used the store in postgres:/);
    expect(await stateOf(url)).toEqual(before);
  });

  test('with the store itself, by another address', async () => {
    const { at } = await copyFixture();
    const url = await freshDatabase();
    await createSchema(await connectTo(url));
    const before = await stateOf(url);
    const other = url.replace('127.0.0.1', 'localhost');
    await expect(copyStore(at(url), at(url))).rejects.toThrow(/is both the source and the target$/);
    await expect(copyStore(at(url), at(other))).rejects.toThrow(/contains this store or a copy of it$/);
    expect(await stateOf(url)).toEqual(before);
  });
});

test('of two copies to one database, one is complete and the other is refused', async () => {
  const { at, directoryWith } = await copyFixture();
  const source = await directoryWith(many(2_500));
  for (let round = 0; round < 3; round++) {
    const url = await freshDatabase();
    const results = await Promise.allSettled([copyStore(source, at(url)), copyStore(source, at(url))]);
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const { reason } = results.find((result) => result.status === 'rejected') as PromiseRejectedResult;
    expect(reason.message).toMatch(/contains this store or a copy of it/);
    expect((await at(url).check()).animals).toBe(2_500);
  }
});

test('nothing can be added to the target during a copy', async () => {
  const { directoryWith } = await copyFixture();
  const source = await directoryWith(addAnimals);
  const url = await freshDatabase();
  const copier = await connectTo(url);
  await createSchema(copier);
  const store = `'${await storeIdOf(copier)}', ${SCHEMA_VERSION}`;
  await copier.query(beginTransaction('read committed'));
  await source.read((contents) => writeDatabase(copier, url, contents, async () => {}));
  const statements = [
    "insert into pets.keys values (sha256(''), 'late', 'free')",
    "insert into pets.callers values (sha256(''))",
    `select * from pets.create_animals(${store}, '{0}', '{x}', null, null)`,
    `select * from pets.seed(${store}, '{}', '{}', '{}', '{}')`,
  ];
  for (const statement of statements) {
    const other = await connectTo(url);
    await other.query("set lock_timeout = '20ms'");
    await expect(other.query(statement), statement).rejects.toThrow(/lock timeout/);
  }
});

test('a server that starts during a copy waits, and then uses the id of the copy', async () => {
  const { at, directoryWith } = await copyFixture();
  const source = await directoryWith(addAnimals);
  const url = await freshDatabase();
  const [copier, server] = [await connectTo(url), await connectTo(url)];
  await createSchema(server);
  await copier.query(beginTransaction('read committed'));
  await source.read((contents) => writeDatabase(copier, url, contents, async () => {}));
  let isOpen = false;
  const opening = openIdentity(server).then((identity) => {
    isOpen = true;
    return identity;
  });
  await expect
    .poll(() => sharedCluster().sql(new URL(url).pathname.slice(1), 'select from pg_locks where not granted'))
    .toHaveLength(1);
  expect(isOpen).toBe(false);
  await copier.query('commit');
  expect(await opening).toMatchObject({ id: (await source.check()).id });
  expect(await at(url).check()).toMatchObject({ animals: (await source.check()).animals });
});
