import { describe, expect, it } from 'vitest';
import { StoreError } from '../../../src/store/errors.ts';
import { hashKey } from '../../../src/store/keys.ts';
import { animal, callsOf, idempotency, seedOf } from '../../helpers/store-fixtures.ts';
import type { Places } from './place.ts';

export function describeLifecycle({ newPlace }: Places): void {
  describe('closing', () => {
    it('completes accepted animals, then refuses every call', async () => {
      const { open } = await newPlace();
      const { store, close } = await open();
      let added = 0;
      for (let i = 0; i < 50; i++) void store.add({ pet: animal() }).then(() => added++);
      await close();
      expect(added).toBe(50);
      await close();
      expect(await (await open()).store.size()).toBe(50);
      for (const call of Object.values(callsOf(store))) await expect(call()).rejects.toThrow(StoreError);
    });
  });

  describe('the check of a store', () => {
    it.each(['while a server uses it', 'after the server has stopped'])(
      'counts everything: %s',
      async (when) => {
        const { location, open, clock } = await newPlace();
        const { store, limiter, close } = await open({ after: 1, milliseconds: 60_000 });
        const empty = { animals: 0, orders: 0, keys: 0, lastId: undefined, tornEnd: undefined };
        expect(await location.check()).toMatchObject({ id: store.id, ...empty });
        await store.seed({ ...seedOf(5n, 40n), orders: [{}, {}] });
        await store.add({ pet: animal(), idempotency: idempotency('k') });
        await location.manageKeys(async (keys) => {
          for (const name of ['a', 'b', 'c', 'd']) await keys.create({ name, plan: 'free' });
        });
        for (let i = 0; i < 3; i++) {
          await limiter.take(hashKey('key'), { perMinute: 1, perDay: 1 });
          clock.advance(1_000);
        }
        if (when.startsWith('after')) await close();
        const report = await location.check();
        expect(report).toMatchObject({
          id: store.id,
          animals: 3,
          orders: 2,
          keys: 4,
          lastId: 41n,
          tornEnd: undefined,
        });
      },
    );
  });
}
