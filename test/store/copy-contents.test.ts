import { appendFile, mkdir, readFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { INT64_MAX, INT64_MIN } from '../../src/contract/int64.ts';
import type { StoreContents, StoredAnimal, StoreLocation } from '../../src/store/backend.ts';
import { type CopyProgress, copyStore } from '../../src/store/copy-store.ts';
import { journalLocation } from '../../src/store/journal/journal-location.ts';
import { openJournalStore } from '../../src/store/journal/journal-store.ts';
import { KeyFiles, saveBans } from '../../src/store/journal/key-files.ts';
import { hashKey } from '../../src/store/keys/keys.ts';
import { manualClock } from '../helpers/clock.ts';
import { addAnimals, collect, REPEATABLE, REPEATABLE_NAME } from '../helpers/store-copy.ts';
import { allTexts, animal, idempotency, noLock } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

/** A directory with a store, to which a test adds more, and its copy. */
async function storeAndCopy() {
  const clock = manualClock();
  const home = await temporaryDirectory();
  const [source, target] = [join(home, 'store'), join(home, 'copy')];
  const open = (directory: string) => openJournalStore({ directory, clock, lock: noLock });
  await mkdir(source);
  const at = (directory: string) => journalLocation(directory, clock);
  return { clock, source, target, open, at, copy: () => copyStore(at(source), at(target)) };
}

test('a copy has every animal, order, key, ban and idempotency key of the store', async () => {
  const { clock, source, target, open, at, copy } = await storeAndCopy();
  const store = await open(source);
  const pets = [INT64_MIN, -1n, 0n, 7n].map((id) => ({ id, ...animal(`${id}`, { categoryId: INT64_MAX }) }));
  await store.seed({ pets, orders: [{ id: 1 }, [], null] });
  await addAnimals(store);
  await store.close();
  const keys = new KeyFiles(source, { clock });
  await keys.create({ name: 'till', plan: 'free' });
  await keys.create({ name: 'import', plan: 'enterprise', quota: { perMinute: 1, perDay: 10 ** 15 } });
  await saveBans(source, new Map([[hashKey('key'), clock.now() + 60_000]]));
  const { source: before, copy: after } = await copy();
  expect(after).toEqual({ ...before, sequence: expect.any(Number) });
  expect(await at(target).read(collect)).toEqual(await at(source).read(collect));
});

test('a request that is repeated at the copy gets the first response until its idempotency key expires', async () => {
  const { clock, source, target, open, copy } = await storeAndCopy();
  const store = await open(source);
  await store.add({ pet: animal(), idempotency: idempotency('early') });
  clock.advance(3_600_000);
  await addAnimals(store);
  const before = await allTexts(store);
  await store.close();
  clock.advance(22 * 3_600_000);
  await copy();
  const copied = await open(target);
  const repeat = (key = REPEATABLE) => copied.add({ pet: animal(REPEATABLE_NAME), idempotency: key });
  expect(await repeat()).toEqual({ kind: 'replayed', pet: before.at(-1) });
  expect(await repeat({ ...REPEATABLE, bodyHash: '0'.repeat(64) })).toEqual({ kind: 'mismatch' });
  expect(await repeat(idempotency('early'))).toEqual({ kind: 'replayed', pet: before[0] });
  clock.advance(3_600_000);
  expect(await repeat(idempotency('early'))).toMatchObject({ kind: 'added' });
  expect(await repeat()).toMatchObject({ kind: 'replayed' });
  clock.advance(3_600_000);
  expect(await repeat()).toMatchObject({ kind: 'added' });
  await copied.close();
});

test('of an idempotency key that was used again after it expired, only the new use is copied', async () => {
  const { clock, source, open, at } = await storeAndCopy();
  const store = await open(source);
  await store.add({ pet: animal(), idempotency: idempotency('again') });
  clock.advance(24 * 3_600_000);
  await store.add({ pet: animal(), idempotency: idempotency('again') });
  await store.close();
  // By this clock, the first use has not expired either.
  clock.advance(-1_000);
  const { all } = await at(source).read(collect);
  expect(all.map((each) => each.idempotency?.at)).toEqual([undefined, clock.now() + 1_000]);
});

test('ids of lost animals are not issued again by the copy of a copy', async () => {
  const { clock, source, target, open, at, copy } = await storeAndCopy();
  const store = await open(source);
  for (let i = 0; i < 3; i++) await store.add({ pet: animal() });
  await store.close();
  const journal = join(source, 'journal.ndjson');
  await truncate(journal, (await readFile(journal)).length - 5);
  await (await open(source)).close();
  await copy();
  const second = `${target}-2`;
  await copyStore(at(target), at(second));
  const copied = await openJournalStore({ directory: second, clock, lock: noLock });
  expect(await copied.add({ pet: animal() })).toMatchObject({ pet: expect.stringContaining('{"id":5,') });
  await copied.close();
});

test('a copy fails if the last record that it has read is removed meanwhile', async () => {
  const { source, open, at, copy } = await storeAndCopy();
  const store = await open(source);
  await store.add({ pet: animal() });
  await store.close();
  const journal = join(source, 'journal.ndjson');
  const { length } = await readFile(journal);
  await appendFile(journal, '{');
  await expect(
    at(source).read(async (contents) => {
      await truncate(journal, length);
      await collect(contents);
    }),
  ).rejects.toThrow(`${journal} has become shorter`);
  await copy();
});

describe('the comparison detects', () => {
  const change =
    (update: (animal: StoredAnimal) => StoredAnimal | undefined) =>
    (contents: StoreContents): StoreContents => ({
      ...contents,
      async *animals() {
        for await (const part of contents.animals())
          yield part.map(update).filter((each) => each !== undefined);
      },
    });

  test.each<[string, string, (contents: StoreContents) => StoreContents]>([
    [
      'another store id',
      'animals',
      (all) => ({ ...all, report: { ...all.report, id: all.secret.slice(1) } }),
    ],
    ['another secret', 'idempotency keys', (all) => ({ ...all, secret: 'f'.repeat(64) })],
    ['another creation time', 'animals', (all) => ({ ...all, created: '2020-01-01T00:00:00Z' })],
    ['another next id', 'animals', (all) => ({ ...all, nextId: all.nextId + 1n })],
    ['a missing order', 'orders', (all) => ({ ...all, orders: all.orders.slice(1) })],
    ['a missing API key', 'API keys', (all) => ({ ...all, keys: [] })],
    [
      'another plan',
      'API keys',
      (all) => ({ ...all, keys: all.keys.map((key) => ({ ...key, plan: 'pro' })) }),
    ],
    ['a missing ban', 'API keys', (all) => ({ ...all, bans: new Map() })],
    ['another name', 'animals', change((each) => ({ ...each, text: each.text.replace('once', 'Once') }))],
    ['another status', 'animals', change((each) => ({ ...each, status: 'pending' }))],
    ['another id', 'animals', change((each) => ({ ...each, id: each.id + 1n }))],
    ['a missing animal', 'animals', change((each) => (each.id === 1n ? undefined : each))],
    [
      'a missing idempotency key',
      'idempotency keys',
      change((each) => ({ ...each, idempotency: undefined })),
    ],
    [
      'another time of an idempotency key',
      'idempotency keys',
      change(({ idempotency: key, ...each }) => ({
        ...each,
        idempotency: key && { ...key, at: key.at + 1 },
      })),
    ],
  ])('%s', async (_, part, plant) => {
    const { clock, source, target, open, at } = await storeAndCopy();
    const store = await open(source);
    await store.seed({ pets: [{ id: 1n, ...animal('seed') }], orders: [1, 2] });
    await store.add({ pet: animal(REPEATABLE_NAME), idempotency: REPEATABLE });
    await store.close();
    await new KeyFiles(source, { clock }).create({ name: 'till', plan: 'free' });
    await saveBans(source, new Map([[hashKey('key'), clock.now()]]));
    const real = at(target);
    const planted: StoreLocation = {
      ...real,
      write: (contents, verify, signal) => real.write(contents, (written) => verify(plant(written)), signal),
    };
    await expect(copyStore(at(source), planted)).rejects.toThrow(
      `the copy in ${target} differs from ${source}: ${part}`,
    );
    await expect(at(target).check()).rejects.toThrow('there is no store in');
  });

  test('that not all animals were written', async () => {
    const { source, target, open, at } = await storeAndCopy();
    const store = await open(source);
    await addAnimals(store);
    await store.close();
    const half: StoreLocation = {
      ...at(target),
      write: (contents, verify) => verify({ ...contents, async *animals() {} }),
    };
    await expect(copyStore(at(source), half)).rejects.toThrow(/differs from .*: number of animals/);
  });
});

test('the progress counts the animals that were copied, then those that were verified', async () => {
  const { source, target, open, at } = await storeAndCopy();
  const store = await open(source);
  const pets = Array.from({ length: 1_500 }, (_, i) => ({ id: BigInt(i), ...animal() }));
  await store.seed({ pets, orders: [] });
  await store.close();
  const seen: CopyProgress[] = [];
  await copyStore(at(source), at(target), { onProgress: (progress) => void seen.push(progress) });
  expect(seen).toEqual(
    (['copied', 'verified'] as const).flatMap((step) =>
      [0, 1_000, 1_500].map((done) => ({ step, done, total: 1_500 })),
    ),
  );
});
