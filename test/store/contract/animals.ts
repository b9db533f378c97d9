import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../../src/contract/json.ts';
import { petJson, petStatuses } from '../../../src/contract/schemas.ts';
import { noIdsLeftError } from '../../../src/store/errors.ts';
import { cases } from '../../helpers/cases.ts';
import { hostileTexts } from '../../helpers/hostile-text.ts';
import { allTexts, animal, seedOf, withId } from '../../helpers/store-fixtures.ts';
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

    it('keeps random texts, categories and statuses exactly, also after a restart', async () => {
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
}
