import type { Client } from 'pg';
import { expect, test } from 'vitest';
import {
  callFunction,
  create,
  freshStore,
  type Item,
  storeIdOf,
  take,
  untilBlocked,
} from '../../helpers/postgres/store-schema.ts';

const DAY = 86_400_000;
const NOON = Date.UTC(2026, 10, 22, 12);

const idOf = ({ response }: { response: string | null }) =>
  Number(/^\{"id":(-?\d+),/.exec(response ?? '')?.[1]);

async function createdIds(client: Client, items: readonly Item[]): Promise<number[]> {
  return (await create(client, items)).map(idOf);
}

test('a creation waits until an earlier creation is visible, and gets the next id', async () => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  await first.query('begin');
  expect(await createdIds(first, [{}, {}])).toEqual([1, 2]);
  const waiting = createdIds(second, [{}]);
  await untilBlocked(observer);
  expect(await callFunction(observer, 'read_pages', [null], [1], [20])).toMatchObject([{ animals: '' }]);
  await first.query('commit');
  expect(await waiting).toEqual([3]);
});

test('an idempotency key that two connections use at the same time adds one animal', async () => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  await first.query('begin');
  const [added] = await create(first, [{ key: 'a' }]);
  const waiting = create(second, [{ key: 'a' }]);
  await untilBlocked(observer);
  await first.query('commit');
  expect(await waiting).toEqual([{ ...added, kind: 'replayed' }]);
  expect(await callFunction(observer, 'count_animals')).toEqual([{ result: '1' }]);
});

test.each(['off', 'local', 'remote_write'])(
  'creations and new bans wait for replicas and the disk even if synchronous_commit is %s, counts never do, and all show warnings',
  async (weak) => {
    const { client } = await freshStore();
    const rule = { after: 1, milliseconds: 300_000 };
    const takeAt = (at: number) => take(client, [{ caller: 'a', count: 1, perMinute: 1 }], at, rule);
    const calls: [call: () => Promise<unknown>, expected: 'on' | 'off'][] = [
      [() => create(client, [{}]), 'on'],
      [() => takeAt(NOON), 'off'],
      [() => takeAt(NOON + 1), 'off'],
      [() => takeAt(NOON + 1_001), 'on'],
      [() => takeAt(NOON + 1_002), 'off'],
    ];
    await storeIdOf(client);
    for (const [call, expected] of calls) {
      const setting = expected === 'on' ? weak : 'on';
      await client.query(
        `begin; set local synchronous_commit = ${setting}; set local client_min_messages = error`,
      );
      await call();
      const read =
        "select current_setting('synchronous_commit') as commit, current_setting('client_min_messages') as messages";
      expect((await client.query(read)).rows).toEqual([{ commit: expected, messages: 'warning' }]);
      await client.query('commit');
      expect((await client.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: 'on' }]);
    }
  },
);

test.each(['repeatable read', 'serializable'])('refuses the isolation level %s', async (level) => {
  const { client } = await freshStore();
  await client.query(`set default_transaction_isolation = '${level}'`);
  await expect(create(client, [{}])).rejects.toThrow('READ COMMITTED');
  await expect(take(client, [{ caller: 'a', count: 1 }])).rejects.toThrow('READ COMMITTED');
  await expect(callFunction(client, 'reset', [], [], [], [])).rejects.toThrow('READ COMMITTED');
});

test.each([
  ['seed', ['1', '2']],
  ['reset', ['5']],
])('a %s waits for a creation, so that an animal is never added under it', async (name, ids) => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  await first.query('begin');
  await create(first, [{}, {}]);
  const waiting = callFunction(second, name, [5], [0], [',"name":"Rex"}'], []);
  await untilBlocked(observer);
  await first.query('commit');
  await waiting;
  const { rows } = await observer.query('select id from pets.animals order by id');
  expect(rows.map(({ id }) => id)).toEqual(ids);
});

test('creations with a key remove expired keys, but not many at a time', async () => {
  const { client } = await freshStore();
  const keys = Array.from({ length: 10 }, (_, i) => ({ key: `${i}` }));
  await create(client, keys, NOON);
  await create(client, [{ key: 'later' }], NOON + 1);
  const stored = async () =>
    Number((await client.query('select count(*) from pets.idempotency')).rows[0].count);
  const numbers: number[] = [];
  for (const [time, items] of [
    [NOON + DAY - 1, [{ key: 'a' }]],
    [NOON + DAY, [{}]],
    [NOON + DAY, [{ key: 'b' }, { key: 'c' }]],
    [NOON + DAY, [{ key: 'h' }, { key: 'i' }]],
    [NOON + DAY, [{ key: 'd' }, { key: 'e' }, { key: 'f' }]],
    [NOON + DAY + 1, [{ key: 'g' }]],
  ] as const) {
    expect(await create(client, items, time)).toHaveLength(items.length);
    numbers.push(await stored());
  }
  expect(numbers).toEqual([12, 12, 10, 8, 9, 9]);
});

test('large creations are committed although their server reads no results, so that they do not block others', async () => {
  const { client, connect } = await freshStore();
  const observer = await connect();
  const bodies = Array.from({ length: 300 }, () => `,"name":"${'x'.repeat(50_000)}"}`);
  await storeIdOf(client);
  const [statuses, none] = [bodies.map(() => 0), null];
  callFunction(client, 'create_animals', statuses, bodies, none, none).catch(() => {});
  // `callFunction` already knows the id of the store, so it sends the call before the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  client.connection.stream.pause();
  await expect.poll(() => callFunction(observer, 'count_animals')).toEqual([{ result: '300' }]);
});

const reset = (client: Client) => callFunction(client, 'reset', [1], [0], ['{"id":1,"name":"Rex"}'], []);

test('a reset and takes of several callers never wait for each other in a circle', async () => {
  const { client, connect } = await freshStore();
  const quota = { count: 1, perMinute: 1e6, perDay: 1e6 };
  const callers = Array.from({ length: 50 }, (_, i) => ({ caller: String(i), ...quota }));
  let isDone = false;
  const takers = [callers, callers.toReversed()].map(async (all) => {
    const connection = await connect();
    while (!isDone) expect(await take(connection, all)).toHaveLength(50);
  });
  for (let i = 0; i < 50; i++) await reset(client);
  isDone = true;
  await Promise.all(takers);
});
