import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { petJson } from '../../../src/contract/schemas.ts';
import { openDatabase } from '../../helpers/postgres/backends.ts';
import { blocked, callFunction, create, freshStore, take } from '../../helpers/postgres/store-schema.ts';
import { connectTo, freshDatabase, startCluster } from '../../helpers/postgres.ts';
import { allTexts, animal, idsOf, seedOf } from '../../helpers/store-fixtures.ts';

const SEED = { ...seedOf(1n, 2n, 3n), orders: [{ number: 1 }] };
const SEED_TEXTS = SEED.pets.map(petJson);

/** Replaces everything by one animal. */
const reset = (client: Client) => callFunction(client, 'reset', [1], [0], ['{"id":1,"name":"Rex"}'], []);

test('creations of another server precede a reset or follow it, and readers see no mixture', async () => {
  const url = await freshDatabase();
  const [first, second] = [await openDatabase(url), await openDatabase(url)];
  await first.reset(SEED);
  let isDone = false;
  const added: (string | undefined)[] = [];
  const writers = Array.from({ length: 4 }, async () => {
    while (!isDone) {
      const result = await second.store.add({ pet: animal('later') });
      if ('pet' in result) added.push(result.pet);
    }
  });
  const reader = (async () => {
    while (!isDone) {
      const ids = idsOf(await allTexts(second.store, { limit: 1_000 }));
      // No animal is missing, and none is there twice.
      expect(ids).toEqual(ids.map((_, i) => String(i + 1)));
      expect(ids.length).toBeGreaterThanOrEqual(3);
    }
  })();
  for (let i = 0; i < 50; i++) await first.reset(SEED);
  isDone = true;
  await Promise.all([...writers, reader]);
  const texts = await allTexts(second.store);
  expect(texts.slice(0, 3)).toEqual(SEED_TEXTS);
  // The last response for each id belongs to the animal that is stored.
  expect(added).toEqual(expect.arrayContaining(texts.slice(3)));
});

test('a reset and takes of several callers never wait for each other in a circle', async () => {
  const { client, connect } = await freshStore();
  const callers = Array.from({ length: 50 }, (_, i) => ({
    caller: String(i),
    count: 1,
    perMinute: 1e6,
    perDay: 1e6,
  }));
  let isDone = false;
  const takers = [callers, callers.toReversed()].map(async (all) => {
    const connection = await connect();
    while (!isDone) expect(await take(connection, all)).toHaveLength(50);
  });
  for (let i = 0; i < 50; i++) await reset(client);
  isDone = true;
  await Promise.all(takers);
});

test('a transaction that began before a reset still sees everything, as that of pg_dump does', async () => {
  const { client, connect } = await freshStore();
  await create(client, [{}, {}]);
  const reader = await connect();
  await reader.query('begin isolation level repeatable read');
  const count = async () => (await reader.query('select count(*)::int as n from pets.animals')).rows[0].n;
  expect(await count()).toBe(2);
  await reset(client);
  expect(await count()).toBe(2);
  await reader.query('commit');
  expect(await count()).toBe(1);
});

test.each([
  ['the server is killed before the commit', ['1'], []],
  ['the database is killed before the commit', ['40', '41'], ['{"old":true}']],
  ['the database is killed after the commit', ['1'], []],
])('if %s of a reset, the inventory is completely the new or the old one', async (when, ids, orders) => {
  const cluster = await startCluster();
  const url = await cluster.createDatabase();
  const { store } = await openDatabase(url);
  await store.seed({ ...seedOf(40n, 41n), orders: [{ old: true }] });
  const [server, blocker, observer] = [await connectTo(url), await connectTo(url), await connectTo(url)];
  await take(blocker, [{ caller: 'a', count: 3 }]);
  const restart = async () => {
    await cluster.kill9();
    await cluster.start();
  };
  if (when.endsWith('after the commit')) {
    await reset(server);
    await restart();
  } else {
    // The reset has replaced the animals and orders, and waits for the row of a caller.
    await blocker.query('begin');
    await blocker.query('select from pets.callers for update');
    const { result } = await blocked(server, observer, () => reset(server));
    const outcome = expect(result).rejects.toThrow();
    // PostgreSQL completes the reset when the row is free, although the server has stopped waiting for it.
    if (when.startsWith('the server')) server.connection.stream.destroy();
    else await restart();
    await outcome;
    await blocker.query('commit').catch(() => {});
  }
  await expect.poll(async () => idsOf(await allTexts(store).catch(() => []))).toEqual(ids);
  expect(await store.orders()).toEqual(orders);
});
