import { describe, expect, it } from 'vitest';
import { MAX_QUOTA } from '../../../src/contract/plans.ts';
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

export function describeKeyManager({ newPlace }: Places): void {
  /** The keys of a new store, which no server uses. */
  async function newKeys() {
    const { location, open } = await newPlace();
    await (await open()).close();
    return {
      create: (request: KeyRequest) => location.manageKeys((keys) => keys.create(request)),
      revoke: (name: string) => location.manageKeys((keys) => keys.revoke(name)),
      get: (name: string) => location.manageKeys((keys) => keys.get(name)),
      list: () => location.manageKeys((keys) => keys.list()),
      names: () => location.manageKeys((keys) => keys.names()),
    };
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

    it('lists keys in the order of the characters of their names', async () => {
      const { create, list, names } = await newKeys();
      const sorted = ['0', '9', 'a', 'a-b', 'a.b', 'a.c', 'a1', 'a_b', 'aa', 'ab', 'b'];
      await Promise.all(sorted.toReversed().map((name) => create({ name, plan: 'free' })));
      expect(await names()).toEqual(sorted);
      expect((await list()).map(({ name }) => name)).toEqual(sorted);
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
}
