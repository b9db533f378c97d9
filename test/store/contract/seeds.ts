import { describe, expect, it } from 'vitest';
import { INT64_MAX, parseJson } from '../../../src/contract/json.ts';
import { petJson } from '../../../src/contract/schemas.ts';
import type { Backend } from '../../../src/store/backend.ts';
import { hashKey } from '../../../src/store/keys.ts';
import type { Store } from '../../../src/store/store.ts';
import { allTexts, animal, idempotency, seedOf, withId } from '../../helpers/store-fixtures.ts';
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

const SEED = { ...seedOf(3n, 7n, 8n), orders: [{ number: 1 }, { number: 2 }] };
const SEED_TEXTS = [SEED.pets.map(petJson), SEED.orders.map((order) => JSON.stringify(order))];
const CALLER = hashKey('key');

const contentsOf = async ({ store }: Pick<Backend, 'store'>) => [await allTexts(store), await store.orders()];

export function describeSeeds({ newPlace, openStore }: Places): void {
  describe('seeding', () => {
    it('keeps the animals in order of their ids and the orders with all digits, even after a restart', async () => {
      const { open } = await newPlace();
      const { store, close } = await open();
      const pets = Array.from({ length: 2300 }, (_, i) => ({
        id: BigInt(2 * i + 7),
        ...animal(`n${i}\u0000\ud800`),
      }));
      await store.seed({ pets, orders: ORDERS.map((text) => parseJson(text)) });
      expect(await contentsOf({ store })).toEqual([pets.map(petJson), ORDERS]);
      await store.add({ pet: animal('later') });
      const expected = [[...pets, { id: 4606n, ...animal('later') }].map(petJson), ORDERS];
      expect(await contentsOf({ store })).toEqual(expected);
      await close();
      const { store: reopened } = await open();
      expect(await contentsOf({ store: reopened })).toEqual(expected);
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

  describe('a reset', () => {
    it.each([
      ['an empty store', async () => {}],
      [
        'more animals than the seed',
        async ({ store }: Backend) => {
          await store.seed({ ...seedOf(5n, 8n, 900n), orders: [{}, {}, {}] });
          await Promise.all(Array.from({ length: 50 }, () => store.add({ pet: animal('later') })));
        },
      ],
      ['the highest id', ({ store }: Backend) => store.seed(seedOf(INT64_MAX))],
    ])('replaces %s by the seed, after which ids start again, even after a restart', async (_, fill) => {
      const { open, location } = await newPlace();
      const backend = await open();
      await fill(backend);
      await backend.reset(SEED);
      expect(await contentsOf(backend)).toEqual(SEED_TEXTS);
      expect(await backend.store.size()).toBe(3);
      const added = await backend.store.add({ pet: animal() });
      expect(added).toMatchObject(withId(9n));
      await backend.close();
      const reopened = await open();
      expect(reopened.store.id).toBe(backend.store.id);
      expect(await reopened.store.add({ pet: animal() })).toMatchObject(withId(10n));
      expect(await location.check()).toMatchObject({ animals: 5, orders: 2, lastId: 10n });
    });

    it('precedes or follows each creation that runs meanwhile; the ids after the seed have no gaps', async () => {
      const { open } = await newPlace();
      const backend = await open();
      const kinds: string[] = [];
      const writers = Array.from({ length: 8 }, async () => {
        for (let i = 0; i < 20; i++) kinds.push((await backend.store.add({ pet: animal() })).kind);
      });
      for (let i = 0; i < 5; i++) await backend.reset(SEED);
      await Promise.all(writers);
      expect(kinds).toEqual(Array(160).fill('added'));
      const later = (await allTexts(backend.store)).slice(SEED.pets.length);
      expect(later).toEqual(later.map((_, i) => petJson({ id: BigInt(i + 9), ...animal() })));
    });

    it('forgets idempotency keys', async () => {
      const { open } = await newPlace();
      const backend = await open();
      const request = { pet: animal(), idempotency: idempotency('k') };
      await backend.store.add(request);
      await backend.reset(SEED);
      expect(await backend.store.add(request)).toMatchObject({ kind: 'added', ...withId(9n) });
      expect(await backend.store.add(request)).toMatchObject({ kind: 'replayed', ...withId(9n) });
    });

    it('begins new windows and ends bans, even after a restart', async () => {
      const { clock, open } = await newPlace('2026-11-20T12:00:10Z');
      const rule = { after: 2, milliseconds: 300_000 };
      let backend = await open(rule);
      const quota = { perMinute: 3, perDay: 100 };
      const take = () => backend.limiter.take(CALLER, quota);
      const ban = async () => {
        for (let i = 0; i < 5; i++) await take();
        clock.advance(1_000);
        await take();
        expect((await take()).banned).toBe(true);
      };
      await ban();
      await backend.reset(SEED);
      expect(await backend.banCounts()).toMatchObject({ active: 0 });
      expect(await take()).toMatchObject({ window: { limit: 3, remaining: 2 } });
      await take();
      await ban();
      await backend.reset(SEED);
      await backend.close();
      backend = await open(rule);
      expect((await take()).window.remaining).toBe(2);
      // Refusals before the reset do not count towards a ban.
      await ban();
    });
  });
}
