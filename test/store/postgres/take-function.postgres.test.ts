import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { migrate } from '../../../src/store/postgres/schema/migrate.ts';
import {
  blocked,
  callerHash,
  create,
  freshStore,
  type Take,
  take,
} from '../../helpers/postgres/store-schema.ts';
import { connectTo, startCluster } from '../../helpers/postgres.ts';

const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MIDNIGHT = Date.UTC(2026, 10, 22);
const NOON = MIDNIGHT + DAY / 2;

const granted = async (client: Client, takes: readonly Take[], at?: number) =>
  (await take(client, takes, at)).map((taken) => taken.granted);

test('each caller gets the requests that both quotas allow', async () => {
  const { client } = await freshStore();
  const callers = [
    { caller: 'c', count: 3, perMinute: 10, perDay: 100 },
    { caller: 'a', count: 30, perMinute: 10, perDay: 100 },
    { caller: 'd', count: 30, perMinute: 10, perDay: 7 },
    { caller: 'b', count: 0, perMinute: 10, perDay: 7 },
    { caller: 'e', count: 5, perMinute: 10 ** 15, perDay: 10 ** 15 },
  ];
  const taken = await take(client, callers, NOON + 1);
  const windows = { minute: NOON, day: MIDNIGHT, now: NOON + 1 };
  const noRefusals = { refusedWindow: 0, firstRefused: 0, counted: [], bannedUntil: 0, version: 0 };
  expect(taken).toEqual(
    [3, 10, 7, 0, 5].map((count) => ({
      granted: count,
      minuteUsed: count,
      dayUsed: count,
      ...windows,
      ...noRefusals,
    })),
  );
  expect(await granted(client, callers, NOON + 2)).toEqual([3, 0, 0, 0, 5]);
});

test('a lower quota than the number of counted requests grants nothing', async () => {
  const { client } = await freshStore();
  await take(client, [{ caller: 'a', count: 8, perMinute: 10 }], NOON);
  const [taken] = await take(client, [{ caller: 'a', count: 1, perMinute: 5 }], NOON);
  expect(taken).toMatchObject({ granted: 0, minuteUsed: 8, dayUsed: 8 });
});

test.each([
  ['in the same minute', NOON, NOON + MINUTE - 1, [NOON, 4], [MIDNIGHT, 4]],
  ['in the next minute', NOON, NOON + MINUTE, [NOON + MINUTE, 1], [MIDNIGHT, 4]],
  ['on the same day', MIDNIGHT, MIDNIGHT + DAY - 1, [MIDNIGHT + DAY - MINUTE, 1], [MIDNIGHT, 4]],
  ['on the next day', MIDNIGHT + DAY - 1, MIDNIGHT + DAY, [MIDNIGHT + DAY, 1], [MIDNIGHT + DAY, 1]],
  ['after the clock was set back by 1 ms', NOON, NOON - 1, [NOON, 4], [MIDNIGHT, 4]],
  ['after the clock was set back by a minute', NOON, NOON - MINUTE, [NOON, 4], [MIDNIGHT, 4]],
  ['after it was set back by more', NOON, NOON - MINUTE - 1, [NOON - 2 * MINUTE, 1], [MIDNIGHT, 4]],
  ['after it was set back by a day', NOON, NOON - DAY, [NOON - DAY, 1], [MIDNIGHT, 4]],
  ['after it was set back by 2 days', NOON, NOON - 2 * DAY, [NOON - 2 * DAY, 1], [MIDNIGHT - 2 * DAY, 1]],
] as const)('counts a request %s', async (_, first, second, [minute, minuteUsed], [day, dayUsed]) => {
  const { client } = await freshStore();
  await take(client, [{ caller: 'a', count: 3 }], first);
  const taken = await take(client, [{ caller: 'a', count: 1 }], second);
  expect(taken).toMatchObject([{ granted: 1, minute, minuteUsed, day, dayUsed, now: second }]);
});

test('the clock of the database decides by default', async () => {
  const { client } = await freshStore();
  const clock = async () =>
    Number((await client.query('select extract(epoch from clock_timestamp()) * 1000 as ms')).rows[0].ms);
  const before = await clock();
  const [taken] = await take(client, [{ caller: 'a', count: 1 }]);
  expect(taken?.now).toBeGreaterThanOrEqual(Math.floor(before));
  expect(taken?.now).toBeLessThanOrEqual(await clock());
});

test('many connections that take from the same callers get exactly the quotas', async () => {
  const { connect } = await freshStore();
  const clients = await Promise.all(Array.from({ length: 8 }, connect));
  const callers = ['a', 'b', 'c', 'd'];
  const totals = new Map(callers.map((caller) => [caller, 0]));
  const running = clients.map(async (client, c) => {
    for (let i = 0; i < 25; i++) {
      // Each connection has another order of the callers.
      const names = [...callers.slice((c + i) % 4), ...callers.slice(0, (c + i) % 4)];
      const takes = names.map((caller, n) => ({ caller, count: 1 + ((i + n) % 3), perMinute: 100 }));
      const counts = await granted(client, takes, NOON + i);
      for (const [n, name] of names.entries()) totals.set(name, (totals.get(name) ?? 0) + (counts[n] ?? 0));
    }
  });
  await Promise.all(running);
  expect([...totals.values()]).toEqual([100, 100, 100, 100]);
});

test.each(['a known caller', 'a new caller'])('a take of %s waits for another take', async (kind) => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  if (kind === 'a known caller') await take(first, [{ caller: 'a', count: 0 }], NOON);
  await first.query('begin');
  expect(await granted(first, [{ caller: 'a', count: 7 }], NOON)).toEqual([7]);
  const waiting = await blocked(second, observer, () => granted(second, [{ caller: 'a', count: 7 }], NOON));
  expect(await granted(observer, [{ caller: 'b', count: 7 }], NOON)).toEqual([7]);
  await first.query('commit');
  expect(await waiting.result).toEqual([3]);
});

test('a take locks the rows of callers in one order', async () => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  const [low, high] = ['a', 'b'].sort((x, y) => Buffer.compare(callerHash(x), callerHash(y)));
  const takes = [high, low].map((caller) => ({ caller: caller ?? '', count: 1 }));
  await take(first, takes);
  await first.query('begin');
  await first.query('select from pets.callers where caller = $1 for update', [callerHash(low ?? '')]);
  const waiting = await blocked(second, observer, () => granted(second, takes));
  const lockHigh = 'select caller from pets.callers where caller = $1 for update nowait';
  expect((await observer.query(lockHigh, [callerHash(high ?? '')])).rows).toHaveLength(1);
  await first.query('commit');
  expect(await waiting.result).toEqual([1, 1]);
});

/** Calls `refuse_v1` for the caller `a`. */
async function refuse(client: Client, expected: number, bannedUntil: number): Promise<boolean> {
  const { rows } = await client.query('select pets.refuse_v1($1, $2, $3, $4, $5, $6) as done', [
    callerHash('a'),
    expected,
    NOON + MINUTE,
    NOON + SECOND,
    [NOON + 2 * SECOND, NOON + 3 * SECOND],
    bannedUntil,
  ]);
  return rows[0].done;
}

test('a banned caller gets nothing until the ban ends', async () => {
  const { client } = await freshStore();
  await take(client, [{ caller: 'a', count: 1 }], NOON);
  expect(await refuse(client, 0, NOON + 5 * MINUTE)).toBe(true);
  const [banned] = await take(client, [{ caller: 'a', count: 1 }], NOON + 5 * MINUTE - 1);
  expect(banned).toMatchObject({ granted: 0, bannedUntil: NOON + 5 * MINUTE });
  const bans = async (at: number) => (await client.query('select pets.bans_v1($1) as n', [at])).rows[0].n;
  expect([await bans(NOON + 5 * MINUTE - 1), await bans(NOON + 5 * MINUTE)]).toEqual(['1', '0']);
  expect(await granted(client, [{ caller: 'a', count: 1 }], NOON + 5 * MINUTE)).toEqual([1]);
});

test('refusals are stored only if no other connection has stored some since they were read', async () => {
  const { client: first, connect } = await freshStore();
  const [second, observer] = [await connect(), await connect()];
  expect(await refuse(first, 0, 0)).toBe(false);
  await take(first, [{ caller: 'a', count: 1 }], NOON);
  await first.query('begin');
  expect(await refuse(first, 0, NOON + MINUTE)).toBe(true);
  const waiting = await blocked(second, observer, () => refuse(second, 0, NOON + HOUR));
  await first.query('commit');
  expect(await waiting.result).toBe(false);
  const [stored] = await take(second, [{ caller: 'a', count: 0 }], NOON);
  expect(stored).toMatchObject({
    refusedWindow: NOON + MINUTE,
    firstRefused: NOON + SECOND,
    counted: [NOON + 2 * SECOND, NOON + 3 * SECOND],
    bannedUntil: NOON + MINUTE,
    version: 1,
  });
  expect(await refuse(second, 1, NOON + HOUR)).toBe(true);
  expect(await refuse(second, 1, NOON + HOUR)).toBe(false);
});

test('a take before a creation survives a crash of the database', async () => {
  const cluster = await startCluster();
  const url = await cluster.createDatabase();
  const client = await connectTo(url);
  await migrate(client);
  await take(client, [{ caller: 'a', count: 3 }], NOON);
  await create(client, [{}]);
  await cluster.kill9();
  await cluster.start();
  const [stored] = await take(await connectTo(url), [{ caller: 'a', count: 0 }], NOON);
  expect(stored).toMatchObject({ minuteUsed: 3, dayUsed: 3 });
});
