import { describe, expect, it } from 'vitest';
import { StoreError } from '../../../src/store/errors.ts';
import { animal, callsOf, seedOf } from '../../helpers/store-fixtures.ts';
import type { Places } from './place.ts';

export function describeLifecycle({ newPlace }: Places): void {
  it('closing completes accepted animals; afterwards, every call is refused', async () => {
    const { open } = await newPlace();
    const { store, close, reset } = await open();
    let added = 0;
    for (let i = 0; i < 50; i++) void store.add({ pet: animal() }).then(() => added++);
    await close();
    expect(added).toBe(50);
    await close();
    const calls = { ...callsOf(store), reset: () => reset(seedOf()) };
    for (const call of Object.values(calls)) await expect(call()).rejects.toThrow(StoreError);
    expect(await (await open()).store.size()).toBe(50);
  });

  describe('the check of a store', () => {
    it('counts everything, also while a server uses the store', async () => {
      const { location, open } = await newPlace();
      const { store, close } = await open();
      const { id } = store;
      const empty = { id, animals: 0, orders: 0, keys: 0, lastId: undefined, tornEnd: undefined };
      expect(await location.check()).toMatchObject(empty);
      await store.seed({ ...seedOf(5n, 40n), orders: [{}, {}, {}, {}] });
      await store.add({ pet: animal() });
      await location.manageKeys(async (keys, storeId) => {
        expect(await storeId()).toBe(id);
        for (const name of ['a', 'b']) await keys.create({ name, plan: 'free' });
      });
      const full = { ...empty, animals: 3, orders: 4, keys: 2, lastId: 41n };
      expect(await location.check()).toMatchObject(full);
      await close();
      expect(await location.check()).toMatchObject(full);
    });
  });
}
