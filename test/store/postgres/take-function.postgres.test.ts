import { expect, test } from 'vitest';
import { create, createSchema, freshStore, take, untilBlocked } from '../../helpers/postgres/store-schema.ts';
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

test('servers that count the first request of a caller at the same time do not exceed its quota', async () => {
  const { client, connect } = await freshStore();
  const [second, third, observer] = [await connect(), await connect(), await connect()];
  // Updates wait for the observer, so that each server can read the counts before the other has changed them.
  await client.query(`
    create function pets.wait() returns trigger language plpgsql
      as $$ begin perform pg_advisory_xact_lock_shared(1); return null; end $$;
    create trigger wait before update on pets.callers execute function pets.wait()`);
  await observer.query('select pg_advisory_lock(1)');
  await client.query(`begin; insert into pets.callers (caller) values (sha256('a'))`);
  const takes = Promise.all(
    [second, third].map((server) => take(server, [{ caller: 'a', count: 1, perMinute: 1 }], NOON)),
  );
  // Both servers have seen that the caller is new.
  await untilBlocked(observer, 2);
  await client.query('commit');
  await untilBlocked(observer, 2);
  await observer.query('select pg_advisory_unlock(1)');
  expect((await takes).map(([taken]) => taken?.granted).sort()).toEqual([0, 1]);
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
