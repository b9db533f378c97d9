import type { Client } from 'pg';
import { expect, test } from 'vitest';
import {
  create,
  createSchema,
  freshStore,
  type Take,
  type Taken,
  take,
} from '../../helpers/postgres/store-schema.ts';
import { connectTo, startCluster } from '../../helpers/postgres.ts';

const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MIDNIGHT = Date.UTC(2026, 10, 22);
const NOON = MIDNIGHT + DAY / 2;

const _granted = async (client: Client, takes: readonly Take[], at?: number) =>
  (await take(client, takes, at)).map((taken) => taken.granted);

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

const NO_BANS = { after: 0, milliseconds: 0 };
const BANS = { after: 3, milliseconds: 5 * MINUTE };

/** A caller without requests left in this minute. A request at NOON was refused. */
async function refusedCaller() {
  const { client, connect } = await freshStore();
  const request = async (at: number, count = 1, rule = BANS) => {
    const [taken] = await take(client, [{ caller: 'a', count, perMinute: 1 }], at, rule);
    return taken ?? ({} as Taken);
  };
  expect(await request(NOON, 2)).toMatchObject({ granted: 1, refused: 1, beginsBan: false });
  return { client, connect, request };
}

test.each<[what: string, at: number, rule: typeof BANS, end: number]>([
  ['the rule is shorter now', 0, { after: 3, milliseconds: MINUTE }, MINUTE],
  ['the rule is longer now', 0, { after: 3, milliseconds: HOUR }, 5 * MINUTE],
  ['the clock was set back', -DAY, BANS, -DAY + 5 * MINUTE],
  ['bans are turned off', 0, NO_BANS, 0],
])('a ban ends at the earlier of two times, which is stored at once, if %s', async (_, at, rule, end) => {
  const { client, request } = await refusedCaller();
  const begin = NOON + SECOND;
  await request(begin, 3);
  const stored = async () =>
    Number((await client.query('select banned_until as until from pets.callers')).rows[0].until);
  expect(await request(begin + at, 0, rule)).toMatchObject({ bannedUntil: begin + end });
  expect(await stored()).toBe(begin + BANS.milliseconds);
  expect(await request(begin + at, 1, rule)).toMatchObject({ bannedUntil: begin + end });
  expect(await stored()).toBe(begin + end);
});

test('a call that only reads counts waits for no lock and writes nothing', async () => {
  const { client, connect, request } = await refusedCaller();
  const other = await connect();
  await other.query('begin; select from pets.callers for update');
  await client.query('begin');
  expect(await request(NOON + 2 * SECOND, 0)).toMatchObject({ granted: 0, beginsBan: false });
  // PostgreSQL assigns an id to a transaction before it writes or locks the first row.
  const { rows } = await client.query('select pg_current_xact_id_if_assigned() as id');
  expect(rows).toEqual([{ id: null }]);
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
