import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { INT64_MAX } from '../../../src/contract/json.ts';
import { type PetStatus, petJson } from '../../../src/contract/schemas.ts';
import type { Backend, StoreContents, StoredAnimal, StoreLocation } from '../../../src/store/backend.ts';
import { journalLocation } from '../../../src/store/journal/journal-location.ts';
import { hashKey, type StoredKey } from '../../../src/store/keys.ts';
import { copyStore } from '../../../src/store/location.ts';
import { fingerprintOf } from '../../../src/store/store.ts';
import { type ManualClock, manualClock } from '../../helpers/clock.ts';
import { allTexts, animal, idempotency, openAsServer, withId } from '../../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../../helpers/temp.ts';

/** A place without a store. `state` returns what is there, which a copy that fails must not change. */
export type CopyPlace = { location: StoreLocation; state(): Promise<unknown> };
export type NewPlace = (clock: ManualClock) => Promise<CopyPlace>;

export const namesIn = async (directory: string) => (await readdir(directory, { recursive: true })).sort();

export const newDirectory: NewPlace = async (clock) => {
  const directory = join(await temporaryDirectory(), 'store');
  // A copy that fails may leave an empty directory.
  const state = () => namesIn(directory).catch(() => []);
  return { location: journalLocation(directory, clock), state };
};

const HOUR_MS = 3_600_000;

const storedKey = (name: string, created: number): StoredKey => ({
  name,
  plan: 'free',
  sha256: hashKey(name),
  created: new Date(created).toISOString(),
});

const SECRET = '5'.repeat(64);

/** Names that a store could change by mistake. */
const HOSTILE_NAMES = [
  ...['\0', '\ud800', 'a\udfffb', '🐕', '\u2028\ufeff', '\\u0000\\', '"},{"id":1,', '\x7f\x1b[31m\r\n'],
  'ﷺ'.repeat(30_000),
];

/** Orders with numbers and texts that a store could change by mistake. */
const ORDERS = [
  '{"id":12345678901234567890123456789,"price":1.10,"big":1e400,"text":"\\u0000\\ud800"}',
  '[]',
  'null',
  '-0.0',
  '"🐕"',
];

const stored = (id: bigint, name = 'Rex', status: PetStatus = 'available'): StoredAnimal => ({
  id,
  status,
  text: petJson({ id, ...animal(name, { status, categoryId: INT64_MAX }) }),
});

export function contentsOf(animals: readonly StoredAnimal[], clock: ManualClock): StoreContents {
  const lastId = animals.at(-1)?.id;
  return {
    report: {
      id: '6f9619ff-8b86-4011-b42d-00cf4fc964ff',
      animals: animals.length,
      orders: ORDERS.length,
      keys: 2,
      lastId,
      sequence: undefined,
      tornEnd: undefined,
    },
    secret: SECRET,
    nextId: (lastId ?? 0n) + 1n,
    orders: ORDERS,
    keys: [
      { ...storedKey('import', 0), plan: 'enterprise', perMinute: 1, perDay: 10 ** 15 },
      storedKey('till', clock.now()),
    ],
    bans: new Map([[hashKey('banned'), clock.now() + HOUR_MS]]),
    readAt: clock.now(),
    async *animals() {
      for (let i = 0; i < animals.length; i += 1_000) yield animals.slice(i, i + 1_000);
    },
  };
}

/** Everything that a store could change by mistake. Ids up to 39 were issued, although the last animal has id 21. */
function hostileContents(clock: ManualClock): StoreContents {
  const animals: StoredAnimal[] = HOSTILE_NAMES.map((name, i) => stored(BigInt(i + 1), name));
  for (const [i, key] of ['early', 'late'].entries()) {
    const at = clock.now() - (i === 0 ? HOUR_MS : 0);
    const fingerprint = fingerprintOf(idempotency(key), SECRET);
    animals.push({ ...stored(BigInt(20 + i), 'once', 'sold'), idempotency: { ...fingerprint, at } });
  }
  const contents = contentsOf(animals, clock);
  return { ...contents, nextId: 40n, report: { ...contents.report, lastId: 39n } };
}

export const manyAnimals = (count: number): StoredAnimal[] =>
  Array.from({ length: count }, (_, i) => stored(BigInt(i + 1)));

export const fill = ({ location }: CopyPlace, contents: StoreContents): Promise<void> =>
  location.write(contents, () => {});

/** Collects everything that a store and its copy must have in common. */
export async function collect(contents: StoreContents) {
  const { animals, readAt: _, report, ...rest } = contents;
  const all: StoredAnimal[] = [];
  for await (const part of animals()) all.push(...part);
  return { ...rest, id: report.id, all };
}

/** A location that calls `next` before each part of the animals that is read from it, and before their end. */
function watched(location: StoreLocation, next: () => unknown): StoreLocation {
  const watch = (contents: StoreContents): StoreContents => ({
    ...contents,
    async *animals() {
      for await (const part of contents.animals()) {
        await next();
        yield part;
      }
      await next();
    },
  });
  return {
    ...location,
    read: (task, signal) => location.read((contents) => task(watch(contents)), signal),
  };
}

const openServer = (location: StoreLocation, clock: ManualClock): Promise<Backend> =>
  openAsServer(location, {
    clock,
    bans: { after: 10, milliseconds: HOUR_MS },
    sleep: async (milliseconds) => void clock.advance(milliseconds),
  });

/** Tests what every copy from one kind of store to another must do. */
export function describeCopying(name: string, newSource: NewPlace, newTarget: NewPlace): void {
  async function places() {
    const clock = manualClock();
    const [source, target] = [await newSource(clock), await newTarget(clock)];
    const copy = () => copyStore(source.location, target.location);
    return { clock, source, target, copy };
  }

  describe(`a copy ${name}`, () => {
    test.each([
      ['with hostile texts', hostileContents],
      ['with the highest id', (clock: ManualClock) => contentsOf([stored(INT64_MAX)], clock)],
    ])('has everything that a store %s has, and a copy of the copy has, too', async (_, contentsAt) => {
      const { clock, source, target, copy } = await places();
      const contents = contentsAt(clock);
      await fill(source, contents);
      const { source: before, copy: after } = await copy();
      expect(after).toEqual({ ...before, sequence: after.sequence });
      expect(await target.location.check()).toEqual(after);
      const second = await newSource(clock);
      await copyStore(target.location, second.location);
      for (const { location } of [source, target, second])
        expect(await location.read(collect)).toEqual(await collect(contents));
    });

    test('continues as the store would: with its ids, idempotency keys, API keys and bans', async () => {
      const { clock, source, target, copy } = await places();
      const contents = hostileContents(clock);
      await fill(source, contents);
      await copy();
      const { store, keys, limiter } = await openServer(target.location, clock);
      const { all } = await collect(contents);
      const texts = all.map(({ text }) => text);
      expect(await allTexts(store)).toEqual(texts);
      const repeat = (key: string, more = {}) =>
        store.add({ pet: animal(), idempotency: idempotency(key, more) });
      expect(await repeat('early')).toEqual({ kind: 'replayed', pet: texts.at(-2) });
      expect(await repeat('late')).toEqual({ kind: 'replayed', pet: texts.at(-1) });
      expect(await repeat('late', { bodyHash: '0'.repeat(64) })).toEqual({ kind: 'mismatch' });
      expect(await store.add({ pet: animal() })).toMatchObject(withId(40n));
      for (const { name, sha256 } of contents.keys) expect(await keys.find(sha256)).toMatchObject({ name });
      const peek = () => limiter.peek(hashKey('banned'), { perMinute: 10, perDay: 100 });
      expect(await peek()).toMatchObject({ banned: true });
      clock.advance(23 * HOUR_MS);
      expect(await repeat('early')).toMatchObject({ kind: 'added' });
      expect(await repeat('late')).toMatchObject({ kind: 'replayed' });
      clock.advance(HOUR_MS);
      expect(await repeat('late')).toMatchObject({ kind: 'added' });
      expect(await peek()).not.toHaveProperty('banned');
    });

    test.each(['fails', 'is interrupted'])(
      'leaves its target as before after each step at which it %s',
      async (what) => {
        const { clock, source, target } = await places();
        await fill(source, contentsOf(manyAnimals(2_500), clock));
        const before = await target.state();
        // `next` is called before each of three parts, and at their end.
        const steps = 4;
        for (let failing = 0; failing <= steps; failing++) {
          let step = 0;
          const interrupt = new AbortController();
          const next = () => {
            if (step++ !== failing) return;
            if (what === 'fails') throw new Error('injected');
            interrupt.abort(new Error('injected'));
          };
          const copying = copyStore(watched(source.location, next), target.location, {
            signal: interrupt.signal,
          });
          if (failing === steps) await copying;
          else {
            await expect(copying, `step ${failing}`).rejects.toThrow('injected');
            expect(await target.state(), `step ${failing}`).toEqual(before);
          }
        }
        expect((await target.location.check()).animals).toBe(2_500);
      },
    );

    test('leaves its target as before if the comparison finds any difference', async () => {
      const { clock, source, target } = await places();
      await fill(source, contentsOf(manyAnimals(3), clock));
      const before = await target.state();
      for (const difference of [
        { id: 'other' },
        { animals: 1 },
        { orders: 1 },
        { keys: 0 },
        { lastId: 1n },
      ]) {
        const planted: StoreLocation = {
          ...target.location,
          write: (contents, accept) =>
            target.location.write(contents, (written) => accept({ ...written, ...difference })),
        };
        await expect(copyStore(source.location, planted)).rejects.toThrow(
          `differs from ${source.location.place}: ${Object.keys(difference)[0]} is`,
        );
        expect(await target.state()).toEqual(before);
      }
    });

    test('is refused if another copy to the same target is complete or running', async () => {
      const { clock, source, copy, target } = await places();
      await fill(source, contentsOf(manyAnimals(2_500), clock));
      const results = await Promise.allSettled([copy(), copy()]);
      expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
      // Copies of a directory also need the lock of the source.
      const refusal = /in use by another process|is not empty/;
      const { reason } = results.find(({ status }) => status === 'rejected') as PromiseRejectedResult;
      expect(reason.message).toMatch(refusal);
      await expect(copy()).rejects.toThrow('is not empty');
      expect((await target.location.check()).animals).toBe(2_500);
    });

    test('is consistent while a server adds animals to a database, and refused while one uses a directory', async () => {
      const { clock, source } = await places();
      const { store } = await openServer(source.location, clock);
      const { location } = await newTarget(clock);
      if (!source.location.isShared) {
        await expect(copyStore(source.location, location)).rejects.toThrow(/in use by another process/);
        return;
      }
      let [added, isDone] = [0, false];
      const adding = (async () => {
        while (!isDone) {
          await Promise.all(Array.from({ length: 20 }, () => store.add({ pet: animal() })));
          added += 20;
        }
      })();
      await expect.poll(() => added).toBeGreaterThan(100);
      const before = added;
      await copyStore(source.location, location);
      isDone = true;
      await adding;
      const { all } = await location.read(collect);
      expect(all.length).toBeGreaterThanOrEqual(before);
      expect(all.map(({ id }) => id)).toEqual(all.map((_, i) => BigInt(i + 1)));
    });
  });
}
