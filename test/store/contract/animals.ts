import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../../src/contract/json.ts';
import { petJson, petStatuses } from '../../../src/contract/schemas.ts';
import { noIdsLeftError, StoreError } from '../../../src/store/errors.ts';
import type { Page, PageQuery } from '../../../src/store/store.ts';
import { cases } from '../../helpers/cases.ts';
import { hostileTexts } from '../../helpers/hostile-text.ts';
import {
  allTexts,
  animal,
  callsOf,
  randomOf,
  seedOf,
  textsOf,
  withId,
} from '../../helpers/store-fixtures.ts';
import type { Places } from './place.ts';

export function describeAnimals({ newPlace, openStore }: Places): void {
  describe('adding and getting animals', () => {
    it('starts empty, with an id of its own', async () => {
      const store = await openStore();
      expect(await store.size()).toBe(0);
      expect(await store.list({ limit: 20 })).toEqual({ pets: Buffer.alloc(0) });
      expect(await store.orders()).toEqual([]);
      expect(await store.get(1n)).toBeUndefined();
      expect(store.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect((await openStore()).id).not.toBe(store.id);
    });

    it('assigns ids from 1 in the order of the calls', async () => {
      const store = await openStore();
      const expected: string[] = [];
      for (const count of [1, 900, 900]) {
        const names = Array.from({ length: count }, (_, i) => `n${expected.length + i}`);
        const results = await Promise.all(names.map((name) => store.add({ pet: animal(name) })));
        for (const [i, name] of names.entries()) {
          const pet = `{"id":${expected.length + 1},"name":"${name}","categoryId":3,"status":"available"}`;
          expect(results[i]).toEqual({ kind: 'added', pet });
          expected.push(pet);
        }
      }
      expect(await store.size()).toBe(1801);
      expect(await allTexts(store)).toEqual(expected);
    });

    it('gets an animal by its id', async () => {
      const store = await openStore();
      const ids = [2n, 7n, 9007199254740993n, INT64_MAX - 1n];
      await store.seed(seedOf(...ids));
      for (const id of ids) expect(await store.get(id)).toContain(`{"id":${id},`);
      for (const id of [INT64_MIN, -2n, 0n, 1n, 8n, 9007199254740992n, INT64_MAX]) {
        expect(await store.get(id)).toBeUndefined();
      }
    });

    it('refuses an animal after the last int64 was assigned', async () => {
      const store = await openStore();
      await store.seed(seedOf(INT64_MAX - 1n));
      const add = () => store.add({ pet: animal() });
      expect(await add()).toMatchObject(withId(INT64_MAX));
      await Promise.all([1, 2].map(() => expect(add()).rejects.toThrow(noIdsLeftError())));
      await expect(add()).rejects.toThrow(noIdsLeftError());
      expect(await store.size()).toBe(2);
    });

    it('keeps random texts, categories and statuses exactly, even after a restart', async () => {
      const { open } = await newPlace();
      const { store, close } = await open();
      const all: string[] = [];
      const animals = fc.record({
        name: hostileTexts,
        categoryId: fc.bigInt({ min: INT64_MIN, max: INT64_MAX }),
        status: fc.constantFrom(...petStatuses),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(animals, { maxLength: 20 }), async (pets) => {
          const after = BigInt(all.length);
          const expected = pets.map((pet, i) => petJson({ id: after + BigInt(i + 1), ...pet }));
          all.push(...expected);
          const results = await Promise.all(pets.map((pet) => store.add({ pet })));
          expect(results).toEqual(expected.map((pet) => ({ kind: 'added', pet })));
          expect((await store.list({ limit: 20, after })).pets.toString()).toBe(expected.join(','));
        }),
        { numRuns: cases(300) },
      );
      await close();
      const { store: reopened } = await open();
      expect(await allTexts(reopened)).toEqual(all);
      for (const [i, text] of all.entries()) expect(await reopened.get(BigInt(i + 1))).toBe(text);
    });
  });

  describe('pages', () => {
    it.each([undefined, 'available'] as const)(
      'with a next page do not change when animals are added (status %s)',
      async (status) => {
        const store = await openStore();
        const listed: [PageQuery, Page][] = [];
        let after: bigint | undefined;
        for (let round = 0; round < 20; round++) {
          const adding = Array.from({ length: 4 }, (_, i) => store.add({ pet: animal(`n${round}-${i}`) }));
          const query: PageQuery = { limit: 3, status, after };
          const page = await store.list(query);
          if (page.next !== undefined)
            listed.push([query, { pets: Buffer.from(page.pets), next: page.next }]);
          after = page.next ?? after;
          await Promise.all(adding);
        }
        // The first call of `list` can return an empty page.
        expect(listed.length).toBeGreaterThanOrEqual(19);
        for (const [query, page] of listed) expect(await store.list(query)).toEqual(page);
      },
    );

    it('of each status, limit and start have exactly the matching animals in order', async () => {
      const store = await openStore();
      const random = randomOf(1);
      const upTo = (limit: number) => Math.floor(random() * limit);
      let id = 1n;
      const edges = [1n, INT64_MAX].map((id) => ({ id, ...animal('edge') }));
      const others = Array.from({ length: 600 }, () => {
        id += BigInt(1 + upTo(4));
        // Few animals are sold, and only at the end.
        const status = id > 1_300n && random() < 0.1 ? 'sold' : (petStatuses[upTo(2)] ?? 'pending');
        return { id, ...animal(`n${id}`, { status }) };
      });
      const pets = [edges[0], ...others, edges[1]].filter((pet) => pet !== undefined);
      await store.seed({ pets, orders: [] });
      const check = async () => {
        const status = [undefined, ...petStatuses][upTo(4)];
        const limit = 1 + upTo(100);
        const after = [undefined, INT64_MIN, INT64_MAX][upTo(30)] ?? BigInt(upTo(1_800) - 200);
        const matching = pets.filter((pet) => pet.id > after && (!status || pet.status === status));
        const page = matching.slice(0, limit);
        const next = matching.length > limit ? page.at(-1)?.id : undefined;
        const listed = await store.list({ limit, status, after });
        expect({ ...listed, pets: `${listed.pets}` }, `${status} ${after}`).toEqual({
          pets: page.map(petJson).join(','),
          ...(next !== undefined && { next }),
        });
      };
      // A store may read several pages at once.
      for (let round = 0; round < 15; round++) await Promise.all(Array.from({ length: 20 }, check));
    });

    it.each([
      [undefined, 'x'.repeat(60_000)],
      ['sold', '猫'.repeat(20_000)],
    ] as const)('end after about 1 MiB (status %s)', async (status, name) => {
      const store = await openStore();
      const pet = animal(name, { status: 'sold' });
      await Promise.all(Array.from({ length: 50 }, () => store.add({ pet })));
      const pages: Page[] = [];
      do pages.push(await store.list({ limit: 100, status, after: pages.at(-1)?.next }));
      while (pages.at(-1)?.next !== undefined && pages.length < 50);
      const ids = pages.flatMap(textsOf).map((text) => JSON.parse(text).id);
      expect(ids).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
      expect(pages.map((page) => textsOf(page).length)).toEqual([18, 18, 14]);
    });

    it('have at least one animal, however long', async () => {
      const store = await openStore();
      for (let i = 0; i < 2; i++) await store.add({ pet: animal('x'.repeat(2_000_000)) });
      const page = await store.list({ limit: 2 });
      expect(textsOf(page)).toHaveLength(1);
      expect(page.next).toBe(1n);
    });
  });

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

  it('the check of a store counts everything, even while a server uses it', async () => {
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
}
