import { describe, expect, it } from 'vitest';
import { INT64_MAX } from '../../../src/contract/json.ts';
import { petJson } from '../../../src/contract/schemas.ts';
import type { Backend } from '../../../src/store/backend.ts';
import { hashKey } from '../../../src/store/keys.ts';
import { allTexts, animal, idempotency, seedOf, withId } from '../../helpers/store-fixtures.ts';
import type { Places } from './place.ts';

const SEED = { ...seedOf(3n, 7n, 8n), orders: [{ number: 1 }, { number: 2 }] };
const SEED_TEXTS = [SEED.pets.map(petJson), SEED.orders.map((order) => JSON.stringify(order))];
const CALLER = hashKey('key');

const contentsOf = async ({ store }: Backend) => [await allTexts(store), await store.orders()];

export function describeResetting({ newPlace }: Places): void {
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
    ])('replaces %s by the seed, after which ids start again, also after a restart', async (_, fill) => {
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

    it('without a seed leaves an empty store, which can be seeded', async () => {
      const { open } = await newPlace();
      const backend = await open();
      await backend.store.seed(SEED);
      await backend.reset({ pets: [], orders: [] });
      expect(await contentsOf(backend)).toEqual([[], []]);
      expect(await backend.store.seed(SEED)).toBe(true);
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

    it('begins new windows and ends bans, also after a restart', async () => {
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
