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
  const decide = async () =>
    await Promise.all(
      limiters.map((limiter) => limiter.take(hashKey('key'), { perMinute: 3, perDay: 1_000 })),
    );
  // Every server knows that the window is used up.
  for (const refused of [false, true])
    for (const { retryAt } of await decide()) expect(retryAt !== undefined).toBe(refused);
  clock.advance(1_000);
  await decide();
  // The ban also applies in later windows.
  for (const pause of [0, 2 * MINUTE]) {
    clock.advance(pause);
    for (const decision of await decide()) expect(decision).toMatchObject({ banned: true });
  }
  clock.advance(3 * MINUTE);
  for (const decision of await decide()) expect(decision).not.toHaveProperty('banned');
});
