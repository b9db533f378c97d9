import { expect, test } from 'vitest';
import { create, createSchema, freshStore, take } from '../../helpers/postgres/store-schema.ts';
import { connectTo, startCluster } from '../../helpers/postgres.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const MIDNIGHT = Date.UTC(2026, 10, 22);
const NOON = MIDNIGHT + DAY / 2;

test.each([
  ['after the clock was set back by a minute', NOON, NOON - MINUTE, [NOON, 4], [MIDNIGHT, 4]],
  ['after it was set back by more', NOON, NOON - MINUTE - 1, [NOON - 2 * MINUTE, 1], [MIDNIGHT, 4]],
  ['after it was set back by 2 days', NOON, NOON - 2 * DAY, [NOON - 2 * DAY, 1], [MIDNIGHT - 2 * DAY, 1]],
] as const)('counts a request %s', async (_, first, second, [minute, minuteUsed], [day, dayUsed]) => {
  const { client } = await freshStore();
  await take(client, [{ caller: 'a', count: 3 }], first);
  const taken = await take(client, [{ caller: 'a', count: 1 }], second);
  const ends = { minuteEnd: minute + MINUTE, dayEnd: day + DAY };
  expect(taken).toMatchObject([{ granted: 1, ...ends, minuteUsed, dayUsed, now: second }]);
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

test('after the clock was set back, a ban lasts no longer than one that begins now', async () => {
  const { client } = await freshStore();
  const rule = { after: 3, milliseconds: 5 * MINUTE };
  const request = async (at: number, count: number) =>
    (await take(client, [{ caller: 'a', count, perMinute: 1 }], at, rule))[0];
  expect(await request(NOON, 2)).toMatchObject({ granted: 1, refused: 1, beginsBan: false });
  expect(await request(NOON + 1_000, 3)).toMatchObject({ bannedUntil: NOON + 1_000 + 5 * MINUTE });
  for (const count of [0, 1])
    expect(await request(NOON - DAY, count)).toMatchObject({ bannedUntil: NOON - DAY + 5 * MINUTE });
});

test('a take before a creation survives a crash of the database', async () => {
  const cluster = await startCluster();
  const url = await cluster.createDatabase();
  const client = await connectTo(url);
  await createSchema(client);
  await take(client, [{ caller: 'a', count: 3 }], NOON);
  await create(client, [{}]);
  await cluster.kill9();
  await cluster.start();
  const [stored] = await take(await connectTo(url), [{ caller: 'a', count: 0 }], NOON);
  expect(stored).toMatchObject({ minuteUsed: 3, dayUsed: 3 });
});
