import { describe, expect, it } from 'vitest';
import { MAX_QUOTA, plans } from '../../../src/contract/api.ts';
import { hashKey, type KeyManager, type KeyRequest } from '../../../src/store/keys.ts';
import type { Places } from './place.ts';

const enterprise = (perMinute?: number, perDay?: number) => ({
  plan: 'enterprise',
  quota: { perMinute, perDay },
});

/** What differs from a valid request for a key with the name `a` and the plan `pro`. */
const INVALID_REQUESTS: Record<string, unknown>[] = [
  ...['', 'a/b', '.a', 'a\n', 'a'.repeat(65)].map((name) => ({ name })),
  { plan: 'gold' },
  { quota: { perMinute: 1, perDay: 1 } },
  enterprise(1),
  enterprise(0, 1),
  enterprise(1.5, 1),
  enterprise(1, MAX_QUOTA + 1),
];

export function describeKeys({ newPlace }: Places): void {
  /** The keys of a new store, which no server uses. */
  async function newKeys() {
    const place = await newPlace();
    const { location, open } = place;
    await (await open()).close();
    return {
      ...place,
      create: (request: KeyRequest) => location.manageKeys((keys) => keys.create(request)),
      revoke: (name: string) => location.manageKeys((keys) => keys.revoke(name)),
      get: (name: string) => location.manageKeys((keys) => keys.get(name)),
      list: () => location.manageKeys((keys) => keys.list()),
      names: () => location.manageKeys((keys) => keys.names()),
    };
  }

  /** A place with an API key, opened for a server. */
  async function placeWithKey() {
    const place = await newKeys();
    const { key } = await place.create({ name: 'a', plan: 'pro' });
    const { keys, close } = await place.open();
    return { ...place, key, keys, close };
  }

  describe('managing API keys', () => {
    it('returns a new key once, and keeps only its hash', async () => {
      const { create, get, list } = await newKeys();
      const created = await create({ name: 'till-1', plan: 'pro' });
      const quota = { perMinute: 300, perDay: 10_000 };
      expect(created).toEqual({ name: 'till-1', plan: 'pro', key: created.key, quota });
      expect(created.key).toMatch(/^pets_[A-Za-z0-9_-]{43}$/);
      const stored = {
        name: 'till-1',
        plan: 'pro',
        sha256: hashKey(created.key),
        created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      };
      expect(await get('till-1')).toEqual(stored);
      expect(await list()).toEqual([stored]);
      expect((await create({ name: 'a', plan: 'free', key: 'my own key' })).key).toBe('my own key');
      expect((await get('a'))?.sha256).toBe(hashKey('my own key'));
    });

    it('refuses wrong names, plans and quotas', async () => {
      const { create, names } = await newKeys();
      for (const wrong of INVALID_REQUESTS) {
        const request = { name: 'a', plan: 'pro', ...wrong } as KeyRequest;
        await expect(create(request), JSON.stringify(wrong)).rejects.toMatchObject({ code: 'key_request' });
      }
      expect(await names()).toEqual([]);
    });

    it('creates one of twenty concurrent keys with the same name', async () => {
      const { create, list } = await newKeys();
      const attempts = await Promise.allSettled(
        Array.from({ length: 20 }, () => create({ name: 'till', plan: 'free' })),
      );
      const created = attempts.filter((attempt) => attempt.status === 'fulfilled');
      expect(created).toHaveLength(1);
      for (const attempt of attempts) {
        if (attempt.status === 'rejected')
          expect(attempt.reason.message).toBe('a key named till already exists');
      }
      expect(await list()).toMatchObject([{ name: 'till', sha256: hashKey(created[0]?.value.key ?? '') }]);
    });

    it('revokes a key once, and then creates another one with its name', async () => {
      const { create, revoke, get, names } = await newKeys();
      const first = await create({ name: 'a', plan: 'pro' });
      await create({ name: 'b', plan: 'pro' });
      await revoke('a');
      expect(await names()).toEqual(['b']);
      expect(await get('a')).toBeUndefined();
      await expect(revoke('a')).rejects.toMatchObject({
        code: 'key_missing',
        message: 'there is no key named "a"',
        hint: expect.stringContaining('b'),
      });
      const second = await create({ name: 'a', plan: 'free' });
      expect(second.key).not.toBe(first.key);
      expect(await get('a')).toMatchObject({ plan: 'free', sha256: hashKey(second.key) });
    });

    it('revokes no key by a part of a path, a pattern or SQL', async () => {
      const { create, revoke, names } = await newKeys();
      await create({ name: 'b', plan: 'pro' });
      for (const name of ['../journal', 'a/../b', '', '.', 'a\u0000', 'B', 'b%', "b' or true --"])
        await expect(revoke(name)).rejects.toMatchObject({ code: 'key_missing' });
      expect(await names()).toEqual(['b']);
    });

    it('fails in a place without a store, and creates none', async () => {
      const { location } = await newPlace();
      for (const task of [
        (keys: KeyManager) => keys.create({ name: 'a', plan: 'pro' }),
        (keys: KeyManager) => keys.list(),
        (keys: KeyManager) => keys.bans(),
      ]) {
        await expect(location.manageKeys<unknown>(task)).rejects.toMatchObject({
          code: 'missing',
          message: `there is no store in ${location.place}`,
        });
      }
      await expect(location.check()).rejects.toMatchObject({ code: 'missing' });
    });
  });

  describe('finding API keys', () => {
    it('finds keys with their plan and quota, and no others', async () => {
      const { create, keys, key } = await placeWithKey();
      const known = { name: 'a', plan: 'pro', sha256: hashKey(key), quota: plans.pro };
      expect(await keys.find(hashKey(key))).toMatchObject(known);
      expect(await keys.find(hashKey(`${key}x`))).toBeUndefined();
      const quota = { perMinute: 7, perDay: MAX_QUOTA };
      const own = await create({ name: 'own', plan: 'enterprise', quota });
      expect(await keys.find(hashKey(own.key))).toMatchObject({ name: 'own', quota });
    });

    it('does not find a revoked key after a second, but finds a new key with the same name', async () => {
      const { clock, create, revoke, keys, key } = await placeWithKey();
      expect(await keys.find(hashKey(key))).toBeDefined();
      await revoke('a');
      const second = await create({ name: 'a', plan: 'free' });
      clock.advance(999);
      expect(await keys.find(hashKey(key))).toBeUndefined();
      expect(await keys.find(hashKey(second.key))).toMatchObject({ plan: 'free' });
    });

    it('finds a temporary key until the server stops, and stores nothing', async () => {
      const { names, open, clock, keys, close, key: stored } = await placeWithKey();
      const key = keys.addTemporary('dev', 'free');
      expect(key).toMatch(/^pets_[\w-]{43}$/);
      expect(keys.addTemporary('chosen', 'business', 'my own key')).toBe('my own key');
      for (let i = 0; i < 3; i++) {
        expect(await keys.find(hashKey(key))).toMatchObject({ name: 'dev', quota: plans.free });
        expect(await keys.find(hashKey('my own key'))).toMatchObject({ name: 'chosen', plan: 'business' });
        clock.advance(1_000);
      }
      expect(await names()).toEqual(['a']);
      await close();
      const { keys: reopened } = await open();
      expect(await reopened.find(hashKey(key))).toBeUndefined();
      expect(await reopened.find(hashKey(stored))).toMatchObject({ name: 'a' });
    });

    it('lists all keys by name, with temporary and new ones, and no revoked ones after a second', async () => {
      const { clock, create, revoke, keys, key } = await placeWithKey();
      const temporary = keys.addTemporary('b', 'free');
      const second = await create({ name: 'c', plan: 'enterprise', quota: { perMinute: 7, perDay: 8 } });
      clock.advance(999);
      expect(await keys.list()).toMatchObject([
        { name: 'a', plan: 'pro', sha256: hashKey(key), quota: plans.pro },
        { name: 'b', plan: 'free', sha256: hashKey(temporary), quota: plans.free },
        { name: 'c', plan: 'enterprise', sha256: hashKey(second.key), quota: { perMinute: 7, perDay: 8 } },
      ]);
      await revoke('a');
      clock.advance(999);
      expect((await keys.list()).map(({ name }) => name)).toEqual(['b', 'c']);
    });
  });
}
