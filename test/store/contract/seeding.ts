import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/contract/json.ts';
import { petJson } from '../../../src/contract/schemas.ts';
import type { Store } from '../../../src/store/store.ts';
import { allTexts, animal, seedOf, withId } from '../../helpers/store-fixtures.ts';
import type { Places } from './place.ts';

/** Orders whose texts and order must stay exactly as they are. */
const ORDERS = [
  ...Array.from({ length: 2_500 }, (_, i) => `{"number":${2_500 - i}}`),
  '{"id":9223372036854775807,"note":"é"}',
  '{"price":0.10,"total":123456789012345678901234567890.5,"tiny":1e-400,"zero":-0}',
  '{"nested":[{"crc":"{\\"crc\\":\\""}],"empty":{},"none":null}',
  '{"nul":"\\u0000","lone":"\\ud800"}',
  '[1,2.50,"three"]',
  '"text"',
  '12345678901234567890',
];

export function describeSeeding({ newPlace, openStore }: Places): void {
  describe('seeding', () => {
    it('keeps the animals in order of their ids and the orders with all digits, also after a restart', async () => {
      const { open } = await newPlace();
      const { store, close } = await open();
      const pets = Array.from({ length: 2300 }, (_, i) => ({
        id: BigInt(2 * i + 7),
        ...animal(`n${i}\u0000\ud800`),
      }));
      const contentsOf = async (from: Store) => [await allTexts(from), await from.orders()];
      await store.seed({ pets, orders: ORDERS.map((text) => parseJson(text)) });
      expect(await contentsOf(store)).toEqual([pets.map(petJson), ORDERS]);
      await store.add({ pet: animal('later') });
      const expected = [[...pets, { id: 4606n, ...animal('later') }].map(petJson), ORDERS];
      expect(await contentsOf(store)).toEqual(expected);
      await close();
      const { store: reopened } = await open();
      expect(await contentsOf(reopened)).toEqual(expected);
      expect(await reopened.add({ pet: animal() })).toMatchObject(withId(4607n));
    });

    it.each([
      ['animals', (store: Store) => store.add({ pet: animal() })],
      ['a seed', (store: Store) => store.seed(seedOf(1n))],
      ['orders', (store: Store) => store.seed({ pets: [], orders: [{}] })],
    ])('refuses a store with %s', async (_, fill) => {
      const store = await openStore();
      await fill(store);
      expect(await store.seed({ ...seedOf(9n), orders: [{ late: true }] })).toBe(false);
      expect(await store.get(9n)).toBeUndefined();
      expect(await store.orders()).not.toContain('{"late":true}');
    });

    it('does nothing if it is empty, and ids start with 1 if there are only orders', async () => {
      const store = await openStore();
      await store.seed({ pets: [], orders: [] });
      expect(await store.seed({ pets: [], orders: [{}] })).toBe(true);
      expect(await store.add({ pet: animal() })).toMatchObject(withId(1n));
    });

    it('loses no animal that is added meanwhile, and happens once if two seeds arrive at a time', async () => {
      const store = await openStore();
      const seeds = Promise.all([store.seed(seedOf(7n)), store.seed(seedOf(7n))]);
      const added = await store.add({ pet: animal() });
      const count = (await seeds).filter(Boolean).length;
      // The store may add the animal first, and then refuse both seeds.
      expect(count).toBeLessThan(2);
      expect(added).toMatchObject(withId(count === 1 ? 8n : 1n));
      expect(await store.size()).toBe(1 + count);
    });
  });
}
