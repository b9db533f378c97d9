import { expect, test } from 'vitest';
import { hashKey } from '../../../src/store/keys.ts';
import { cases } from '../../helpers/cases.ts';
import { manualClock } from '../../helpers/clock.ts';
import { openDatabase } from '../../helpers/postgres/backends.ts';
import { freshDatabase } from '../../helpers/postgres.ts';

const SERVERS = 3;
const WINDOWS = cases(400);
const MINUTE = 60_000;

/** Opens a database as several servers whose time passes only when the test advances it. */
async function openServers(bans = { after: 0, milliseconds: 0 }) {
  const url = await freshDatabase();
  const clock = manualClock('2026-11-20T12:00:00Z');
  const settings = { clock, bans, testTime: clock.now };
  const servers = await Promise.all(Array.from({ length: SERVERS }, () => openDatabase(url, settings)));
  return { clock, limiters: servers.map(({ limiter }) => limiter) };
}

test(`${WINDOWS} windows over ${SERVERS} servers each grant exactly n requests, with each value of Remaining once`, async () => {
  const { clock, limiters } = await openServers();
  const caller = hashKey('key');
  for (let i = 0; i < WINDOWS; i++) {
    const perMinute = 1 + Math.floor(Math.random() * 30);
    const quota = { perMinute, perDay: 1_000_000 };
    clock.advance(MINUTE - (clock.now() % MINUTE) + Math.floor(Math.random() * MINUTE));
    const burst = async (server: number) => {
      const decisions = [];
      for (let sent = 0; sent < perMinute; ) {
        const size = 1 + Math.floor(Math.random() * 8);
        sent += size;
        const takes = Array.from({ length: size }, () => limiters[server]?.take(caller, quota));
        decisions.push(...(await Promise.all(takes)));
      }
      return decisions;
    };
    const decisions = (await Promise.all(limiters.map((_, server) => burst(server)))).flat();
    const granted = decisions.filter((decision) => decision?.retryAt === undefined);
    const remaining = granted.map((decision) => decision?.window.remaining ?? -1).sort((a, b) => a - b);
    expect(remaining).toEqual([...Array(perMinute).keys()]);
  }
});

test('a ban that begins on one server applies on all others at their next request', async () => {
  const { clock, limiters } = await openServers({ after: 2, milliseconds: 5 * MINUTE });
  const quota = { perMinute: 5, perDay: 1_000 };
  for (const [round, first] of [0, 1, 2].entries()) {
    const caller = hashKey(`key ${round}`);
    const take = (server: number) => limiters[server]?.take(caller, quota);
    for (let i = 0; i < quota.perMinute; i++) await take(i % SERVERS);
    // Every server knows that the window is used up.
    for (let server = 0; server < SERVERS; server++) {
      expect(await take(server)).toMatchObject({ retryAt: expect.any(Number) });
    }
    clock.advance(1_000);
    await take(first);
    expect(await take(first)).toMatchObject({ banned: true });
    for (let server = 0; server < SERVERS; server++)
      expect(await take(server)).toMatchObject({ banned: true });
    // The ban also applies in later windows.
    clock.advance(2 * MINUTE);
    for (let server = 0; server < SERVERS; server++)
      expect(await take(server)).toMatchObject({ banned: true });
    clock.advance(3 * MINUTE);
    for (let server = 0; server < SERVERS; server++) {
      expect(await take(server)).not.toHaveProperty('banned');
    }
  }
});
