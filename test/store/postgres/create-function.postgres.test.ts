import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { blocked, create, freshStore, type Item } from '../../helpers/postgres/store-schema.ts';

const DAY = 86_400_000;
const NOON = Date.UTC(2026, 10, 22, 12);

const idOf = ({ response }: { response: string | null }) =>
  Number(/^\{"id":(-?\d+),/.exec(response ?? '')?.[1]);

async function createdIds(client: Client, items: readonly Item[]): Promise<number[]> {
  return (await create(client, items)).map(idOf);
}

type Page = { animals: string; next: string | null };

async function page(client: Client, first: number): Promise<Page> {
  const { rows } = await client.query('select * from pets.page_v1(null, $1, 20)', [first]);
  return rows[0];
}

test('a creation waits until an earlier creation is visible, and gets the next id', async () => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  await first.query('begin');
  expect(await createdIds(first, [{}, {}])).toEqual([1, 2]);
  const waiting = await blocked(second, observer, () => createdIds(second, [{}]));
  expect((await page(observer, 1)).animals).toBe('');
  await first.query('commit');
  expect(await waiting.result).toEqual([3]);
});

test('an id of a creation that was rolled back is issued again, because nobody has seen it', async () => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  await first.query('begin');
  await create(first, [{}]);
  const waiting = await blocked(second, observer, () => createdIds(second, [{}]));
  await first.query('rollback');
  expect(await waiting.result).toEqual([1]);
});

test('with eight writers, a reader misses no animal, and pages with a next link do not change', async () => {
  const { client: reader, connect } = await freshStore();
  const writers = await Promise.all(Array.from({ length: 8 }, connect));
  let running = writers.length;
  const writing = Promise.all(
    writers.map(async (writer, w) => {
      try {
        for (let i = 0; i < 40; i++) await create(writer, Array(1 + ((i + w) % 5)).fill({}));
      } finally {
        running--;
      }
    }),
  );
  const pages: { first: number; read: Page }[] = [];
  for (let first = 1; running > 0; ) {
    const read = await page(reader, first);
    if (read.next === null) continue;
    pages.push({ first, read });
    first = Number(read.next) + 1;
  }
  await writing;
  expect(pages.length).toBeGreaterThan(10);
  for (const { first, read } of pages) expect(await page(reader, first)).toEqual(read);
});

test('ids follow the highest id and the last id of the store from which this one was copied', async () => {
  const { client } = await freshStore();
  await client.query(`select pets.seed_v1('{-5}', '{0}', '{x}', '{}')`);
  expect(await createdIds(client, [{}])).toEqual([1]);
  await client.query('update pets.meta set last_id = 10');
  expect(await createdIds(client, [{}, {}])).toEqual([11, 12]);
  expect(await createdIds(client, [{ key: 'a' }])).toEqual([13]);
});

test('items of one call are added, replayed or refused one by one', async () => {
  const { client } = await freshStore();
  const [rex, tom] = [',"name":"Rex"}', ',"name":"Tom"}'];
  await create(client, [{ body: rex, key: 'a' }], NOON);
  const items = [
    { body: tom, status: 2 },
    { body: rex, key: 'a' },
    { body: tom, key: 'a' },
    { body: tom, key: 'b' },
    { body: rex },
  ];
  const results = [
    { kind: 'added', response: '{"id":2,"name":"Tom"}' },
    { kind: 'replayed', response: '{"id":1,"name":"Rex"}' },
    { kind: 'mismatch', response: null },
    { kind: 'added', response: '{"id":3,"name":"Tom"}' },
    { kind: 'added', response: '{"id":4,"name":"Rex"}' },
  ];
  expect(await create(client, items, NOON + 1)).toEqual(results);
  const { rows } = await client.query('select id, status, body from pets.animals where id > 1 order by id');
  expect(rows).toEqual([
    { id: '2', status: 2, body: '{"id":2,"name":"Tom"}' },
    { id: '3', status: 0, body: '{"id":3,"name":"Tom"}' },
    { id: '4', status: 0, body: '{"id":4,"name":"Rex"}' },
  ]);
});

test('an idempotency key expires after 24 hours, and can then be used again', async () => {
  const { client } = await freshStore();
  const at = async (time: number) => (await create(client, [{ key: 'a' }], time))[0];
  const first = { kind: 'added', response: '{"id":1,"name":"Rex"}' };
  const second = { kind: 'added', response: '{"id":2,"name":"Rex"}' };
  expect(await at(NOON)).toEqual(first);
  expect(await at(NOON + DAY - 1)).toEqual({ ...first, kind: 'replayed' });
  expect(await at(NOON + DAY)).toEqual(second);
  expect(await at(NOON + 2 * DAY - 1)).toEqual({ ...second, kind: 'replayed' });
});

test('an idempotency key that two connections use at the same time adds one animal', async () => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  await first.query('begin');
  const [added] = await create(first, [{ key: 'a' }]);
  const waiting = await blocked(second, observer, () => create(second, [{ key: 'a' }]));
  await first.query('commit');
  expect(await waiting.result).toEqual([{ ...added, kind: 'replayed' }]);
  expect((await observer.query('select pets.size_v1()')).rows).toEqual([{ size_v1: '1' }]);
});

test('a call that contains an idempotency key twice fails, and adds nothing', async () => {
  const { client } = await freshStore();
  await expect(create(client, [{}, { key: 'a' }, { key: 'a' }])).rejects.toMatchObject({ code: '21000' });
  expect((await client.query('select pets.is_empty_v1()')).rows).toEqual([{ is_empty_v1: true }]);
});

test('creations and bans wait for the disk even if synchronous_commit is off; takes never do', async () => {
  const { client } = await freshStore();
  for (const [call, expected] of [
    [`pets.create_v1('{0}', '{x}', null, null)`, 'on'],
    [`pets.seed_v1('{}', '{}', '{}', '{}')`, 'on'],
    [`pets.refuse_v1(sha256('a'), 0, 0, 0, '{}', 0)`, 'on'],
    [`pets.take_v1(array[sha256('a')], '{1}', '{1}', '{1}')`, 'off'],
  ]) {
    await client.query(`begin; set local synchronous_commit = ${expected === 'on' ? 'off' : 'on'}`);
    await client.query(`select ${call}`);
    expect((await client.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: expected }]);
    await client.query('commit');
    expect((await client.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: 'on' }]);
  }
});

test.each(['repeatable read', 'serializable'])('refuses the isolation level %s', async (level) => {
  const { client } = await freshStore();
  await client.query(`set default_transaction_isolation = '${level}'`);
  await expect(create(client, [{}])).rejects.toThrow('READ COMMITTED');
});

test('a seed keeps its ids, and is all or nothing', async () => {
  const { client } = await freshStore();
  const seed = (ids: string) =>
    client.query(`select pets.seed_v1($1, '{0,2}', '{x,y}', '{o,p}') as done`, [ids]);
  await expect(seed('{7,7}')).rejects.toMatchObject({ code: '23505' });
  expect((await seed('{9,7}')).rows).toEqual([{ done: true }]);
  expect((await seed('{19,17}')).rows).toEqual([{ done: false }]);
  const { rows } = await client.query('select id, status, body from pets.animals order by id');
  expect(rows).toEqual([
    { id: '7', status: 2, body: 'y' },
    { id: '9', status: 0, body: 'x' },
  ]);
  expect((await client.query('select * from pets.orders_v1() as body')).rows).toEqual([
    { body: 'o' },
    { body: 'p' },
  ]);
});

test('a seed waits for a creation, and then finds that the store is not empty', async () => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  await first.query('begin');
  await create(first, [{}]);
  const seed = () => second.query(`select pets.seed_v1('{5}', '{0}', '{x}', '{}') as done`);
  const waiting = await blocked(second, observer, seed);
  await first.query('commit');
  expect((await waiting.result).rows).toEqual([{ done: false }]);
});

test('expired idempotency keys are removed in slices, by several connections at a time', async () => {
  const { client: first, connect } = await freshStore();
  const second = await connect();
  const keys = Array.from({ length: 4_500 }, (_, i) => ({ key: `${i}` }));
  await create(first, keys, NOON);
  await create(first, [{ key: 'later' }], NOON + 1);
  const expire = async (client: Client, at: number) =>
    (await client.query('select pets.expire_v1($1) as count', [at])).rows[0].count;
  expect(await expire(first, NOON + DAY - 1)).toBe(0);
  await first.query('begin');
  expect(await expire(first, NOON + DAY)).toBe(2_000);
  await second.query(`set lock_timeout = '5s'`);
  expect(await expire(second, NOON + DAY)).toBe(2_000);
  await first.query('commit');
  expect(await expire(second, NOON + DAY)).toBe(500);
  expect(await expire(second, NOON + DAY)).toBe(0);
  expect(await expire(second, NOON + DAY + 1)).toBe(1);
});
