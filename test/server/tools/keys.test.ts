import { describe, expect, test } from 'vitest';
import { MAX_QUOTA, plans } from '../../../src/contract/plans.ts';
import { hashKey } from '../../../src/store/keys.ts';
import { startWithTools } from '../../helpers/tools.ts';

type Window = { limit: number; used: number; left: number; endsAt: string };
type Keys = {
  keys: { name: string; plan: string; minute: Window; day: Window; bannedUntil?: string }[];
};

async function start() {
  const real = await startWithTools({
    time: '2026-11-20T12:00:10Z',
    bans: { after: 1, milliseconds: 300_000 },
  });
  const keys = async () => (await (await real.use('/keys')).json()) as Keys;
  const callWith = (key: string) => real.call('/pets', { headers: { Authorization: `Bearer ${key}` } });
  return { ...real, keys, callWith };
}

const minute = (used: number, endsAt = '2026-11-20T12:01:00.000Z') => ({
  limit: 60,
  used,
  left: 60 - used,
  endsAt,
});
const day = (used: number) => ({
  limit: 1_000,
  used,
  left: 1_000 - used,
  endsAt: '2026-11-21T00:00:00.000Z',
});

describe('GET /keys', () => {
  test('shows both windows of each key, sorted by name, without the keys and their hashes', async () => {
    const { call, makeKey, keys, use, key, service, callWith, clock } = await start();
    const own = await makeKey({
      name: 'big',
      plan: 'enterprise',
      quota: { perMinute: 5, perDay: MAX_QUOTA },
    });
    const temporary = service().keys.addTemporary('dev', 'pro');
    await call('/pets');
    await call('/pets');
    await callWith(own);
    clock.advance(1_000);
    expect(await keys()).toEqual({
      keys: [
        {
          name: 'big',
          plan: 'enterprise',
          minute: { ...minute(1), limit: 5, left: 4 },
          day: { ...day(1), limit: MAX_QUOTA, left: MAX_QUOTA - 1 },
        },
        {
          name: 'dev',
          plan: 'pro',
          minute: { ...minute(0), limit: plans.pro.perMinute, left: plans.pro.perMinute },
          day: { ...day(0), limit: plans.pro.perDay, left: plans.pro.perDay },
        },
        { name: 'till', plan: 'free', minute: minute(2), day: day(2) },
      ],
      time: '2026-11-20T12:00:11.000Z',
    });
    const text = await (await use('/keys')).text();
    for (const each of [key, own, temporary]) {
      expect(text).not.toContain(each);
      expect(text).not.toContain(hashKey(each));
    }
    clock.advance(60_000);
    expect((await keys()).keys[2]).toMatchObject({
      minute: minute(0, '2026-11-20T12:02:00.000Z'),
      day: day(2),
    });
  });

  test('shows a ban until it ends, and begins none', async () => {
    const { call, keys, clock } = await start();
    for (let i = 0; i < 61; i++) await call('/pets');
    clock.advance(1_000);
    for (let i = 0; i < 20; i++) expect((await keys()).keys[0]).not.toHaveProperty('bannedUntil');
    expect(await (await call('/pets')).json()).toMatchObject({ code: 'key_banned' });
    expect((await keys()).keys[0]).toMatchObject({
      minute: minute(60),
      bannedUntil: '2026-11-20T12:05:11.000Z',
    });
    clock.advance(300_000);
    expect((await keys()).keys[0]).not.toHaveProperty('bannedUntil');
  });

  test('has a ban until DELETE /bans lifts it, also after a restart', async () => {
    const { call, keys, clock, use, restart } = await start();
    for (let i = 0; i < 61; i++) await call('/pets');
    clock.advance(1_000);
    expect(await (await call('/pets')).json()).toMatchObject({ code: 'key_banned' });
    const lifted = await use('/bans?key=till', { method: 'DELETE' });
    expect([lifted.status, await lifted.json()]).toEqual([200, await keys()]);
    expect((await keys()).keys[0]).not.toHaveProperty('bannedUntil');
    // The window is still used up, and requests within a second after a 429 do not count towards a ban.
    for (let i = 0; i < 2; i++)
      expect(await (await call('/pets')).json()).toMatchObject({ code: 'rate_limited' });
    await restart();
    expect((await call('/pets')).status).toBe(200);
  });

  test.each([
    ['/bans?key=nobody', 404, 'not_found'],
    ['/bans', 400, 'invalid_request'],
    ['/bans?key=till&key=till', 400, 'invalid_request'],
  ])('DELETE %s is %i', async (path, status, code) => {
    const { use } = await start();
    const response = await use(path, { method: 'DELETE' });
    expect([response.status, await response.json()]).toMatchObject([status, { code }]);
  });
});
