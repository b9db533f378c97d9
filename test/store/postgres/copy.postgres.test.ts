import { expect, test } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../../src/contract/int64.ts';
import type { StoreLocation } from '../../../src/store/backend.ts';
import { copyStore } from '../../../src/store/copy-store.ts';
import { pendingSql, readIdentity } from '../../../src/store/postgres/schema.ts';
import { BANNED, copyFixture } from '../../helpers/postgres/copy-fixture.ts';
import { createSchema } from '../../helpers/postgres/store-schema.ts';
import {
  connectTo,
  freshDatabase,
  hasPgbouncer,
  sharedCluster,
  startPgbouncer,
} from '../../helpers/postgres.ts';
import { addAnimals, collect, REPEATABLE, REPEATABLE_NAME } from '../../helpers/store-copy.ts';
import { allTexts, animal, idempotency } from '../../helpers/store-fixtures.ts';

test('copies from a directory to a database, to another database and back lose and change nothing', async () => {
  const { inDirectory, at, directoryWith } = await copyFixture();
  const source = await directoryWith(async (store) => {
    const ids = [INT64_MIN, -1n, 0n, 7n];
    const pets = ids.map((id) => ({ id, ...animal(`${id}`, { categoryId: INT64_MAX, status: 'pending' }) }));
    await store.seed({ pets, orders: [{ id: 123456789012345678901234567890n }, [], null, '\0 \ud800 🐕'] });
    await addAnimals(store);
  });
  const expected = await source.read(collect);
  const places = [source, at(await freshDatabase()), at(await freshDatabase()), inDirectory('back')] as const;
  for (const [i, place] of places.slice(1).entries()) {
    const { source: before, copy } = await copyStore(places[i] as StoreLocation, place);
    expect(copy).toEqual({ ...before, sequence: copy.sequence });
    expect(await place.read(collect)).toEqual(expected);
    expect(await place.check()).toEqual(copy);
  }
});

test('orders keep all their digits in a database', async () => {
  const { at, inDirectory, directoryWith } = await copyFixture();
  const source = await directoryWith((store) => store.add({ pet: animal() }));
  const orders = ['{"price":1.10,"big":1e400,"n":12345678901234567890123456789}', '-0.0', '"\\u0000\\ud800"'];
  const withOrders: StoreLocation = {
    ...source,
    read: (task, signal) =>
      source.read(
        (contents) => task({ ...contents, orders, report: { ...contents.report, orders: 3 } }),
        signal,
      ),
  };
  const database = at(await freshDatabase());
  await copyStore(withOrders, database);
  await copyStore(database, inDirectory('back'));
  expect((await inDirectory('back').read(collect)).orders).toEqual(orders);
});

test('long animals are read one by one', async () => {
  const { at, directoryWith } = await copyFixture();
  const source = await directoryWith(async (store) => {
    const pets = [600_000, 600_000, 2_000_000, 1].map((length, i) => ({
      id: BigInt(i),
      ...animal('x'.repeat(length)),
    }));
    await store.seed({ pets, orders: [] });
  });
  const database = at(await freshDatabase());
  await copyStore(source, database);
  for (const place of [source, database]) {
    const lengths = await place.read(async ({ animals }) => {
      const all: number[] = [];
      for await (const part of animals()) all.push(part.length);
      return all;
    });
    expect(lengths).toEqual([2, 1, 1]);
  }
});

test('a copy does not depend on the order of idempotency keys in the table', async () => {
  const { at, directoryWith } = await copyFixture();
  const source = await directoryWith(async (store) => {
    for (const key of ['a', 'b', 'c']) await store.add({ pet: animal(), idempotency: idempotency(key) });
  });
  const url = await freshDatabase();
  await copyStore(source, at(url));
  const expected = await at(url).read(collect);
  // An update moves the row of the first animal to the end of the table.
  await (await connectTo(url)).query(`update pets.idempotency set at = at where response like '{"id":1,%'`);
  expect(await at(url).read(collect)).toEqual(expected);
});

test('a user who may not change the schema can copy to it', async () => {
  const { at, directoryWith } = await copyFixture();
  const source = await directoryWith(addAnimals);
  const url = await freshDatabase();
  const sql = await pendingSql(await connectTo(url));
  const database = new URL(url).pathname.slice(1);
  await sharedCluster().sql('postgres', `revoke create on database ${database} from public`);
  await sharedCluster().sql(database, sql);
  await copyStore(source, at(url));
  expect(await at(url).read(collect)).toEqual(await source.read(collect));
});

test('stores are copied through pgbouncer in transaction mode', async ({ skip }) => {
  if (!hasPgbouncer()) return skip('pgbouncer is not installed');
  const { at, inDirectory, directoryWith } = await copyFixture();
  const source = await directoryWith(addAnimals);
  const database = new URL(await freshDatabase()).pathname.slice(1);
  const url = (await startPgbouncer(sharedCluster())).url(database);
  await copyStore(source, at(`${url}?prepare=off`));
  await copyStore(at(`${url}?prepare=off`), inDirectory('back'));
  expect(await inDirectory('back').read(collect)).toEqual(await source.read(collect));
});

test('ids up to the highest int64 can be copied', async () => {
  const { at, inDirectory, directoryWith } = await copyFixture();
  const source = await directoryWith((store) =>
    store.seed({ pets: [{ id: INT64_MAX, ...animal() }], orders: [] }),
  );
  const database = at(await freshDatabase());
  await copyStore(source, database);
  await copyStore(database, inDirectory('back'));
  expect(await inDirectory('back').read(collect)).toEqual(await source.read(collect));
});

test('a server on the copy continues as the server on the store would', async () => {
  const { clock, at, openServer, directoryWith } = await copyFixture();
  let before: string[] = [];
  const source = await directoryWith(async (store) => {
    await addAnimals(store);
    before = await allTexts(store);
  });
  clock.advance(1_000);
  // The ids of these animals were issued, but the animals were lost.
  const last = BigInt(before.length);
  const withLostAnimals: StoreLocation = {
    ...source,
    read: (task) => source.read((contents) => task({ ...contents, nextId: last + 11n })),
  };
  const database = at(await freshDatabase());
  await copyStore(withLostAnimals, database);
  const { store, keys, limiter } = await openServer(database);
  expect(await allTexts(store)).toEqual(before);
  const repeat = (bodyHash = REPEATABLE.bodyHash) =>
    store.add({ pet: animal(REPEATABLE_NAME), idempotency: { ...REPEATABLE, bodyHash } });
  expect(await repeat()).toEqual({ kind: 'replayed', pet: before.at(-1) });
  expect(await repeat('0'.repeat(64))).toEqual({ kind: 'mismatch' });
  expect(await store.add({ pet: animal() })).toMatchObject({
    pet: expect.stringContaining(`{"id":${last + 11n},`),
  });
  for (const { name, sha256 } of (await source.read(collect)).keys) {
    expect(await keys.find(sha256)).toMatchObject({ name });
  }
  const quota = { perMinute: 10, perDay: 100 };
  expect(await limiter.peek(BANNED, quota)).toMatchObject({ banned: true });
  clock.advance(24 * 3_600_000);
  expect(await repeat()).toMatchObject({ kind: 'added' });
  expect(await limiter.peek(BANNED, quota)).not.toHaveProperty('banned');
});

test('a database that contains no store is created by the copy, also if only store migrate has used it', async () => {
  const { at, directoryWith } = await copyFixture();
  const source = await directoryWith(addAnimals);
  const url = await freshDatabase();
  const client = await connectTo(url);
  await createSchema(client);
  await copyStore(source, at(url));
  expect(await readIdentity(client)).toMatchObject({ id: (await source.check()).id });
});

test('a copy of a database is consistent while a server adds animals', async () => {
  const { at, inDirectory, openServer } = await copyFixture();
  const location = at(await freshDatabase());
  const { store } = await openServer(location);
  let [added, isDone] = [0, false];
  const adding = (async () => {
    while (!isDone) {
      await Promise.all(Array.from({ length: 20 }, () => store.add({ pet: animal() })));
      added += 20;
    }
  })();
  for (let copy = 1; copy <= 3; copy++) {
    await expect.poll(() => added).toBeGreaterThan(100 * copy);
    const before = added;
    await copyStore(location, inDirectory(`copy-${copy}`));
    const { all } = await inDirectory(`copy-${copy}`).read(collect);
    expect(all.length).toBeGreaterThanOrEqual(before);
    expect(all.map(({ id }) => id)).toEqual(all.map((_, i) => BigInt(i + 1)));
  }
  isDone = true;
  await adding;
});
