import { describe, expect, it } from 'vitest';
import type { CreatePet } from '../../../src/store/store.ts';
import { allTexts, animal, idempotency, withId } from '../../helpers/store-fixtures.ts';
import type { Places } from './place.ts';

const request = (key: string, name = 'Rex', more: Partial<CreatePet['idempotency']> = {}): CreatePet => ({
  pet: animal(name),
  idempotency: idempotency(key, more),
});
const DAY_MS = 86_400_000;
const OTHER_BODY = { bodyHash: '1'.repeat(64) };

export function describeIdempotency({ newPlace, openStore }: Places): void {
  describe('an idempotency key', () => {
    it('adds one animal, and repeats the first response', async () => {
      const store = await openStore();
      const first = await store.add(request('k'));
      expect(first).toMatchObject({ kind: 'added', ...withId(1n) });
      await store.add({ pet: animal('between') });
      for (let i = 0; i < 3; i++)
        expect(await store.add(request('k'))).toEqual({ ...first, kind: 'replayed' });
      expect(await store.size()).toBe(2);
    });

    it('is a mismatch with another body', async () => {
      const store = await openStore();
      const first = await store.add(request('k'));
      expect(await store.add(request('k', 'Other', OTHER_BODY))).toEqual({ kind: 'mismatch' });
      expect(await store.add(request('k'))).toEqual({ ...first, kind: 'replayed' });
      expect(await store.size()).toBe(1);
    });

    it('is in flight until the animal is durable', async () => {
      const store = await openStore();
      const [first, ...others] = await Promise.all(
        [{}, {}, OTHER_BODY].map((more) => store.add(request('k', 'Rex', more))),
      );
      expect([first, ...others].map((result) => result?.kind)).toEqual(['added', 'in_flight', 'in_flight']);
      expect(await store.add(request('k'))).toEqual({ ...first, kind: 'replayed' });
      expect(await store.add(request('k', 'Rex', OTHER_BODY))).toEqual({ kind: 'mismatch' });
    });

    it.each([
      ['scopes', { scope: 'b' }, {}],
      ['scopes that differ from the key only in their border', { scope: 'ak' }, { scope: 'a' }],
    ])('is independent in other %s', async (_, one, other) => {
      const store = await openStore();
      expect(await store.add(request('k', 'one', one))).toMatchObject(withId(1n));
      expect(await store.add(request('kk', 'other', other))).toMatchObject(withId(2n));
      expect(await store.add(request('k', 'third', { scope: 'third' }))).toMatchObject(withId(3n));
      expect(await store.add(request('k', 'one', one))).toMatchObject({ kind: 'replayed', ...withId(1n) });
    });

    it.each(['"', '\\', "'", ' ', '~'.repeat(255), 'K', 'k '])('can be any text: %j', async (key) => {
      const store = await openStore();
      await store.add(request('k'));
      const first = await store.add(request(key));
      expect(first).toMatchObject({ kind: 'added', ...withId(2n) });
      expect(await store.add(request(key))).toEqual({ ...first, kind: 'replayed' });
    });

    it('expires after 24 hours, and then adds an animal again', async () => {
      const { open, clock } = await newPlace();
      const { store } = await open();
      await store.add(request('k'));
      clock.advance(DAY_MS - 1);
      expect(await store.add(request('k'))).toMatchObject({ kind: 'replayed', ...withId(1n) });
      expect(await store.add(request('k', 'Rex', OTHER_BODY))).toEqual({ kind: 'mismatch' });
      clock.advance(1);
      expect(await store.add(request('k', 'second', OTHER_BODY))).toMatchObject({
        kind: 'added',
        ...withId(2n),
      });
      // The new animal renews the key, and replaces the body.
      clock.advance(DAY_MS - 1);
      expect(await store.add(request('k'))).toEqual({ kind: 'mismatch' });
      expect(await store.add(request('k', 'second', OTHER_BODY))).toMatchObject({
        kind: 'replayed',
        ...withId(2n),
      });
    });

    it('survives a restart, and expires 24 hours after its first use', async () => {
      const { open, clock } = await newPlace();
      const { store, close } = await open();
      const pets = ['a\u0000', '\ud800', '猫'].map((name, i) => request(`k${i}`, name));
      const added = await Promise.all(pets.map((pet) => store.add(pet)));
      await close();
      clock.advance(DAY_MS - 1);
      const { store: reopened } = await open();
      for (const [i, pet] of pets.entries()) {
        expect(await reopened.add(pet)).toEqual({ ...added[i], kind: 'replayed' });
        expect(await reopened.add({ ...pet, ...request(`k${i}`, 'x', OTHER_BODY) })).toEqual({
          kind: 'mismatch',
        });
      }
      clock.advance(1);
      expect(await reopened.add(request('k1'))).toMatchObject({ kind: 'added', ...withId(4n) });
    });

    it('is decided for each animal of a group on its own', async () => {
      const { open, clock } = await newPlace();
      const { store } = await open();
      await store.add(request('expired'));
      clock.advance(DAY_MS);
      for (const key of ['old 1', 'old 2']) await store.add(request(key));
      const group = [
        request('old 1'),
        { pet: animal('no key') },
        request('new'),
        request('new'),
        request('old 2', 'Rex', OTHER_BODY),
        request('expired', 'again'),
        request('old 1', 'Rex', { scope: 'b' }),
        { pet: animal('no key') },
      ];
      const results = await Promise.all(group.map((each) => store.add(each)));
      expect(results).toMatchObject([
        { kind: 'replayed', ...withId(2n) },
        { kind: 'added', ...withId(4n) },
        { kind: 'added', ...withId(5n) },
        { kind: 'in_flight' },
        { kind: 'mismatch' },
        { kind: 'added', ...withId(6n) },
        { kind: 'added', ...withId(7n) },
        { kind: 'added', ...withId(8n) },
      ]);
      expect(await allTexts(store)).toHaveLength(8);
      expect(await store.get(6n)).toContain('"again"');
    });

    it('is remembered among thousands', async () => {
      const store = await openStore();
      const requests = Array.from({ length: 3_000 }, (_, i) => request(`k${i}`, `n${i}`));
      for (let first = 0; first < requests.length; first += 500) {
        const group = requests.slice(first, first + 500);
        const added = await Promise.all(group.map((each) => store.add(each)));
        expect(new Set(added.map(({ kind }) => kind))).toEqual(new Set(['added']));
      }
      for (let first = 0; first < requests.length; first += 500) {
        const group = requests.slice(first, first + 500);
        const replayed = await Promise.all(group.map((each) => store.add(each)));
        for (const [i, result] of replayed.entries()) {
          expect(result).toMatchObject({ kind: 'replayed', ...withId(BigInt(first + i + 1)) });
        }
      }
      expect(await store.size()).toBe(3_000);
    });
  });
}
