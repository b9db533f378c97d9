import { describe, expect, test } from 'vitest';
import { MAX_QUOTA, plans } from '../../../src/contract/api.ts';
import { hashKey } from '../../../src/store/keys.ts';
import { startWithTools } from '../../helpers/real-service.ts';

async function start() {
  const real = await startWithTools({
    time: '2026-11-20T12:00:10Z',
    bans: { after: 1, milliseconds: 300_000 },
  });
  const keys = async () => (await (await real.use('/keys')).json()) as { keys: object[]; time: string };
  const codeOf = async () => ((await (await real.call('/pets')).json()) as { code?: string }).code;
  /** Uses up the limit, and gets the key banned. */
  const exceed = async () => {
    for (let i = 0; i < 61; i++) await real.call('/pets');
    real.clock.advance(1_000);
    for (let i = 0; i < 20; i++) expect((await keys()).keys[0]).not.toHaveProperty('bannedUntil');
    expect(await codeOf()).toBe('key_banned');
  };
  return { ...real, keys, codeOf, exceed };
}

const minute = (used: number, limit = 60) => ({
  ...{ limit, used, left: limit - used },
  endsAt: '2026-11-20T12:01:00.000Z',
});
const day = (used: number, limit = 1_000) => ({
  ...{ limit, used, left: limit - used },
  endsAt: '2026-11-21T00:00:00.000Z',
});

describe('GET /keys', () => {
  test('shows both windows of each key, sorted by name, without the keys and their hashes', async () => {
    const { call, makeKey, keys, use, key, service, clock } = await start();
    const quota = { perMinute: 5, perDay: MAX_QUOTA };
    const own = await makeKey({ name: 'big', plan: 'enterprise', quota });
    const temporary = service().keys.addTemporary('dev', 'pro');
    await call('/pets');
    await call('/pets');
    await call('/pets', { headers: { Authorization: `Bearer ${own}` } });
    clock.advance(1_000);
    const { perMinute, perDay } = plans.pro;
    expect(await keys()).toEqual({
      keys: [
        { name: 'big', plan: 'enterprise', minute: minute(1, 5), day: day(1, MAX_QUOTA) },
        { name: 'dev', plan: 'pro', minute: minute(0, perMinute), day: day(0, perDay) },
        { name: 'till', plan: 'free', minute: minute(2), day: day(2) },
      ],
      time: '2026-11-20T12:00:11.000Z',
    });
    const text = await (await use('/keys')).text();
    for (const secret of [key, own, temporary].flatMap((each) => [each, hashKey(each)]))
      expect(text).not.toContain(secret);
    clock.advance(60_000);
    expect((await keys()).keys[2]).toMatchObject({
      minute: { used: 0, endsAt: '2026-11-20T12:02:00.000Z' },
      day: day(2),
    });
  });

  test('shows a ban until it ends, and begins none', async () => {
    const { keys, clock, exceed } = await start();
    await exceed();
    const bannedUntil = '2026-11-20T12:05:11.000Z';
    expect((await keys()).keys[0]).toMatchObject({ minute: minute(60), bannedUntil });
    clock.advance(300_000);
    expect((await keys()).keys[0]).not.toHaveProperty('bannedUntil');
  });

  test('has a ban until DELETE /bans lifts it, also after a restart', async () => {
    const { keys, use, restart, exceed, codeOf } = await start();
    await exceed();
    const lifted = await use('/bans?key=till', { method: 'DELETE' });
    expect([lifted.status, await lifted.json()]).toEqual([200, await keys()]);
    expect((await keys()).keys[0]).not.toHaveProperty('bannedUntil');
    // The window is still used up, and requests within a second after a 429 do not count towards a ban.
    for (let i = 0; i < 2; i++) expect(await codeOf()).toBe('rate_limited');
    await restart();
    expect(await codeOf()).toBeUndefined();
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
