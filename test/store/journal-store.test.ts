import { appendFile, cp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreFailedError } from '../../src/store/errors.ts';
import type { JournalOptions } from '../../src/store/journal/journal-location.ts';
import type { JournalStore } from '../../src/store/journal/journal-store.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { interceptFiles } from '../helpers/store-faults.ts';
import { allTexts, animal, idempotency, openJournalStore, withId } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const pathIn = (directory: string) => join(directory, 'journal.ndjson');
const linesIn = async (directory: string) => (await readFile(pathIn(directory), 'utf8')).split('\n');

async function open(directory: string, options: Partial<JournalOptions> = {}): Promise<JournalStore> {
  const store = await openJournalStore({ directory, clock: manualClock(), ...options });
  onTestFinished(() => store.close());
  return store;
}

describe('the journal', () => {
  it('has one readable line for all animals of a batch', async () => {
    const directory = await temporaryDirectory();
    const store = await open(directory);
    await Promise.all(
      ['a', 'b'].map((name) => store.add({ pet: animal(name), idempotency: idempotency(name) })),
    );
    const [header = '', batch = '', ...rest] = await linesIn(directory);
    expect(JSON.parse(header)).toMatchObject({ seq: 0, format: 1, id: store.id });
    expect(JSON.parse(batch)).toMatchObject({
      seq: 1,
      at: Date.UTC(2026, 10, 20, 12),
      pets: [{ id: 1, name: 'a' }, { id: 2 }],
      keys: [{ pet: 0, key: expect.stringMatching(/^[0-9a-f]{32}$/), body: 'f'.repeat(32) }, { pet: 1 }],
    });
    expect(rest).toEqual(['']);
  });

  it('has at most 1,000 animals or about 1 MiB per line, with ids in the order of the calls', async () => {
    const directory = await temporaryDirectory();
    const store = await open(directory);
    const results = await Promise.all(Array.from({ length: 1500 }, () => store.add({ pet: animal() })));
    results.forEach((result, i) => void expect(result).toMatchObject(withId(BigInt(i + 1))));
    await Promise.all(Array.from({ length: 5 }, () => store.add({ pet: animal('x'.repeat(300_000)) })));
    const counts = (await linesIn(directory)).slice(1, -1).map((line) => JSON.parse(line).pets.length);
    expect(counts).toEqual([1000, 500, 3, 2]);
  });
});

it('opening a store deletes temporary files of a killed process, and no others', async () => {
  const directory = await temporaryDirectory();
  const temporary = ['journal.new-0123456789abcdef', 'journal.ndjson.new-01', 'bans.json.new-ab'];
  for (const name of temporary) await writeFile(join(directory, name), 'half');
  for (const name of ['notes.txt', 'notes.new-01']) await writeFile(join(directory, name), 'mine');
  await open(directory);
  const names = await readdir(directory);
  expect(names.filter((name) => !name.startsWith('lock-')).sort()).toEqual([
    'journal.ndjson',
    'notes.new-01',
    'notes.txt',
    'store.txt',
  ]);
});

it('an animal is neither visible nor acknowledged before its batch is synced', async () => {
  const [syncing, released] = [gate(), gate()];
  let isHeld = false;
  const files = interceptFiles(async (name) => {
    if (!isHeld || name !== 'datasync') return;
    syncing.open();
    await released.opened;
  });
  const store = await open(await temporaryDirectory(), { files });
  isHeld = true;
  let isAcknowledged = false;
  const adding = store.add({ pet: animal() }).then(() => {
    isAcknowledged = true;
  });
  await syncing.opened;
  const later = store.add({ pet: animal('later') });
  await new Promise(setImmediate);
  expect(isAcknowledged).toBe(false);
  expect([await store.size(), await store.get(1n), await allTexts(store)]).toEqual([0, undefined, []]);
  isHeld = false;
  released.open();
  await Promise.all([adding, later]);
  expect(await store.size()).toBe(2);
});

describe.skipIf(process.platform === 'win32')('a journal that another program changes', () => {
  const replace = (path: string) => cp(path, `${path}.x`).then(() => rename(`${path}.x`, path));
  const changes: [string, (path: string, directory: string) => Promise<unknown>, string][] = [
    ['deletes it', (path) => rm(path), 'was moved, replaced or deleted'],
    ['replaces it with a copy', replace, 'was moved, replaced or deleted'],
    [
      'replaces its directory with a file',
      (_, directory) => rename(directory, `${directory}.x`).then(() => writeFile(directory, '')),
      'was moved, replaced or deleted',
    ],
    ['truncates it', (path) => truncate(path, 10), 'another program changed'],
    [
      'appends to it',
      (path) => appendFile(path, '{}\n{}\n{}\n{}\n{}\n'.repeat(100)),
      'another program changed',
    ],
  ];

  async function openWithOne(options: Partial<JournalOptions> = {}) {
    const directory = join(await temporaryDirectory(), 'store');
    const failures: Error[] = [];
    const store = await open(directory, { onFailure: (error) => failures.push(error), ...options });
    await store.add({ pet: animal() });
    return { directory, path: pathIn(directory), store, failures };
  }

  it.each(changes)('before a write stops the store, and nothing is added: %s', async (...row) => {
    const [, change, message] = row;
    const { directory, path, store, failures } = await openWithOne();
    await change(path, directory);
    const before = await readFile(path).catch(() => undefined);
    const adding = Array.from({ length: 1_500 }, () => store.add({ pet: animal() }));
    for (const result of await Promise.allSettled(adding))
      expect(result).toMatchObject({ reason: expect.any(StoreFailedError) });
    expect(await readFile(path).catch(() => undefined)).toEqual(before);
    await expect(async () => store.list({ limit: 1 })).rejects.toThrow(message);
    expect(failures).toEqual([expect.objectContaining({ message: expect.stringContaining(path) })]);
  });

  it.each(changes)('is found by the check whether the store can write: %s', async (_, change, message) => {
    const { directory, path, store, failures } = await openWithOne();
    await change(path, directory);
    await expect(store.checkWritable()).rejects.toThrow(message);
    expect(failures).toHaveLength(1);
  });

  it.each(changes)(
    'during a write stops the server, and the animal may have been added: %s',
    async (...row) => {
      const [, change, message] = row;
      let isArmed = false;
      const files = interceptFiles(async (name, file) => {
        if (!isArmed || name !== 'datasync') return;
        isArmed = false;
        await change(file, dirname(file));
      });
      const { store, failures } = await openWithOne({ files });
      isArmed = true;
      const error = await store.add({ pet: animal() }).catch((reason) => reason);
      expect(error).toBeInstanceOf(StoreFailedError);
      expect(error.message).toContain(message);
      expect(failures).toEqual([error]);
    },
  );
});
