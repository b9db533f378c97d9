import { describe, expect, it } from 'vitest';
import { MAX_QUOTA, plans } from '../../../src/contract/plans.ts';
import type { Backend } from '../../../src/store/backend.ts';
import { hashKey, type KeyRequest } from '../../../src/store/keys.ts';
import type { ManualClock } from '../../helpers/clock.ts';
import type { Places } from './place.ts';

export function describeKeyDirectory({ newPlace }: Places): void {
  /** A place with an API key, opened for a server. */
  async function placeWithKey() {
    const { location, open, ...place } = await newPlace();
    const create = (request: KeyRequest) => location.manageKeys((keys) => keys.create(request));
    const revoke = (name: string) => location.manageKeys((keys) => keys.revoke(name));
    await (await open()).close();
    const { key } = await create({ name: 'a', plan: 'pro' });
    const { keys, close } = await open();
    return { ...place, location, open, create, revoke, key, keys, close };
  }

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

    it('finds a key that was just created, however often unknown keys are searched', async () => {
      const { create, keys } = await placeWithKey();
      for (let i = 0; i < 20; i++) {
        expect(await keys.find(hashKey(`unknown ${i}`))).toBeUndefined();
        const { key } = await create({ name: `key-${i}`, plan: 'free' });
        expect(await keys.find(hashKey(key))).toMatchObject({ name: `key-${i}` });
      }
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
      const { location, open, clock, keys, close, key: stored } = await placeWithKey();
      const key = keys.addTemporary('dev', 'free');
      expect(key).toMatch(/^pets_[\w-]{43}$/);
      expect(keys.addTemporary('chosen', 'business', 'my own key')).toBe('my own key');
      for (let i = 0; i < 3; i++) {
        expect(await keys.find(hashKey(key))).toMatchObject({ name: 'dev', quota: plans.free });
        expect(await keys.find(hashKey('my own key'))).toMatchObject({ name: 'chosen', plan: 'business' });
        clock.advance(1_000);
      }
      expect(await location.manageKeys((manager) => manager.names())).toEqual(['a']);
      await close();
      const { keys: reopened } = await open();
      expect(await reopened.find(hashKey(key))).toBeUndefined();
      expect(await reopened.find(hashKey(stored))).toMatchObject({ name: 'a' });
    });

    it('lists all keys by name, also temporary and new ones, and no revoked ones after a second', async () => {
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

  type Work = (keys: Backend['keys'], sha256: string, clock: ManualClock) => Promise<unknown>;
  /** What a server does in a second. `reads` includes the read at the start. */
  it.each<[name: string, reads: number, work: Work]>([
    [
      'once for many concurrent calls',
      2,
      async (keys, sha256, clock) => {
        // The keys that were read at the start are too old.
        clock.advance(1_000);
        const found = await Promise.all(Array.from({ length: 50 }, () => keys.find(sha256)));
        expect(found.every(Boolean)).toBe(true);
      },
    ],
    [
      'twice a second for known keys',
      2,
      async (keys, sha256, clock) => {
        for (let time = 0; time < 1_000; time++) {
          expect(await keys.find(sha256)).toBeDefined();
          clock.advance(1);
        }
      },
    ],
    [
      'about ten times a second for unknown keys',
      12,
      async (keys, _, clock) => {
        const end = clock.elapsed() + 1_000;
        for (let searched = 0; clock.elapsed() < end; searched += 5) {
          const hashes = Array.from({ length: 5 }, (_, i) => hashKey(`unknown ${searched + i}`));
          const found = await Promise.all(hashes.map((sha256) => keys.find(sha256)));
          expect(found.some(Boolean)).toBe(false);
          clock.advance(1);
        }
      },
    ],
  ])('the API keys are read at most %s', async (_, reads, work) => {
    const { clock, open, keyReads, key, close } = await placeWithKey();
    await close();
    const before = await keyReads();
    const server = await open();
    await work(server.keys, hashKey(key), clock);
    await server.close();
    expect((await keyReads()) - before).toBeLessThanOrEqual(reads);
  });
}
