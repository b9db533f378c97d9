import {
  appendFile,
  chmod,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { petJson } from '../../src/contract/schemas.ts';
import { StoreError, StoreFailedError } from '../../src/store/errors.ts';
import { fingerprintOf } from '../../src/store/index/idempotency-index.ts';
import {
  type JournalOptions,
  type JournalStore,
  openJournalStore,
} from '../../src/store/journal/journal-store.ts';
import { JournalWriter, type NewEntry } from '../../src/store/journal/journal-writer.ts';
import { loadJournal } from '../../src/store/journal/load-journal.ts';
import { recordBytes } from '../../src/store/journal/record-format.ts';
import type { Page } from '../../src/store/store.ts';
import { realFileSystem } from '../../src/system/file-system.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';
import { allTexts, animal, callsOf, idempotency, textsOf } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const pathIn = (directory: string) => join(directory, 'journal.ndjson');
const linesIn = async (directory: string) => (await readFile(pathIn(directory), 'utf8')).split('\n');

async function open(directory: string, options: Partial<JournalOptions> = {}): Promise<JournalStore> {
  const store = await openJournalStore({ directory, clock: manualClock(), ...options });
  onTestFinished(() => store.close());
  return store;
}

function useUmask(umask: number): void {
  const before = process.umask(umask);
  onTestFinished(() => void process.umask(before));
}

describe('a reopened store', () => {
  it('has the same animals and id, and an unchanged journal', async () => {
    const directory = await temporaryDirectory();
    const first = await open(directory);
    const names = ['Rex', 'é"\\\n', '猫'.repeat(200), ''];
    const added = await Promise.all(names.map((name) => first.add({ pet: animal(name) })));
    await first.close();
    const before = await readFile(pathIn(directory));
    const second = await open(directory);
    expect(second.id).toBe(first.id);
    expect(await allTexts(second)).toEqual(added.map((result) => 'pet' in result && result.pet));
    expect(await readFile(pathIn(directory))).toEqual(before);
    expect(await second.add({ pet: animal() })).toMatchObject({ pet: expect.stringContaining('{"id":5,') });
  });

  it('has the animals, orders and next id of its seed', async () => {
    const directory = await temporaryDirectory();
    const first = await open(directory);
    const pets = Array.from({ length: 2300 }, (_, i) => ({ id: BigInt(2 * i), ...animal(`n${i}`) }));
    await first.seed({ pets, orders: [{ id: 9223372036854775807n }, [1]] });
    await first.add({ pet: animal('later') });
    await first.close();
    const second = await open(directory);
    expect(await second.size()).toBe(2301);
    expect(await second.orders()).toEqual(['{"id":9223372036854775807}', '[1]']);
    expect(await second.get(4599n)).toContain('later');
  });

  it('remembers idempotency keys for the rest of their 24 hours', async () => {
    const directory = await temporaryDirectory();
    const clock = manualClock();
    const request = { pet: animal(), idempotency: idempotency('k') };
    const first = await open(directory, { clock });
    const added = await first.add(request);
    await first.close();
    clock.advance(24 * 3_600_000 - 1);
    const second = await open(directory, { clock });
    expect(await second.add(request)).toEqual({ ...added, kind: 'replayed' });
    await second.close();
    clock.advance(1);
    const third = await open(directory, { clock });
    expect((await third.add(request)).kind).toBe('added');
  });
});

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

  it('has at most 1,000 animals or about 1 MiB per line', async () => {
    const directory = await temporaryDirectory();
    const store = await open(directory);
    await Promise.all(Array.from({ length: 1500 }, () => store.add({ pet: animal() })));
    await Promise.all(Array.from({ length: 5 }, () => store.add({ pet: animal('x'.repeat(300_000)) })));
    const counts = (await linesIn(directory)).slice(1, -1).map((line) => JSON.parse(line).pets.length);
    expect(counts).toEqual([1000, 500, 3, 2]);
  });

  it('is private under umask 0, like its directories', async () => {
    const directory = join(await temporaryDirectory(), 'deep', 'store');
    useUmask(0);
    const store = await open(directory);
    await store.seed({ pets: [{ id: 1n, ...animal() }], orders: [] });
    const modeOf = async (path: string) => (await stat(path)).mode & 0o777;
    expect(await modeOf(directory)).toBe(0o700);
    expect(await modeOf(join(directory, '..'))).toBe(0o700);
    for (const name of await readdir(directory)) {
      expect(await modeOf(join(directory, name)), name).toBe(0o600);
    }
  });

  it('cannot contain an animal that is too long; the store stays usable', async () => {
    const store = await open(await temporaryDirectory());
    await expect(store.add({ pet: animal('x'.repeat(9_000_000)) })).rejects.toThrow(StoreError);
    expect(await store.add({ pet: animal() })).toMatchObject({ pet: expect.stringContaining('{"id":1,') });
  });
});

describe('opening a store', () => {
  it('deletes temporary files of a killed process, and no others', async () => {
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
    ]);
  });

  it.each(['ENOTDIR', 'EACCES'])('fails with a hint on %s', async (code) => {
    const files = interceptFiles((name) => {
      if (name === 'readdir') throw errno(code);
    });
    const error = await open(await temporaryDirectory(), { files }).catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreError);
    expect(error.message).toContain(code);
    expect(error.hint).toContain('--data');
  });

  it('fails if the path is a file', async () => {
    const path = join(await temporaryDirectory(), 'file');
    await writeFile(path, '');
    await expect(open(path)).rejects.toThrow(StoreError);
    await expect(open(join(path, 'below'))).rejects.toThrow(StoreError);
  });

  it('accepts an existing directory', async () => {
    const directory = join(await temporaryDirectory(), 'existing');
    await mkdir(directory);
    await chmod(directory, 0o750);
    expect(await (await open(directory)).size()).toBe(0);
  });
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

describe('a failed write', () => {
  /** A store with one animal, whose calls of the file-system function `name` then fail with `code`. */
  async function failing(name: string, code: string) {
    let isBroken = false;
    const failures: StoreFailedError[] = [];
    const directory = await temporaryDirectory();
    const files = interceptFiles((called) => {
      if (isBroken && called === name) throw errno(code);
    });
    const store = await open(directory, { files, onFailure: (error) => failures.push(error) });
    await store.add({ pet: animal() });
    isBroken = true;
    return { directory, store, failures };
  }

  it.each([
    ['write', 'ENOSPC'],
    ['write', 'EIO'],
    ['datasync', 'EIO'],
    ['datasync', 'ENOSPC'],
  ])('stops the store, and rejects all waiting animals: %s, %s', async (name, code) => {
    const { directory, store, failures } = await failing(name, code);
    // So many animals fill several batches.
    const adding = Array.from({ length: 2500 }, () => store.add({ pet: animal() }));
    const results = await Promise.allSettled(adding);
    expect(failures).toHaveLength(1);
    expect(failures[0]).toBeInstanceOf(StoreFailedError);
    expect(failures[0]?.message).toContain(pathIn(directory));
    expect(failures[0]?.message).toContain(code);
    expect(failures[0]?.hint).toMatch(/start again/);
    for (const result of results) expect(result).toMatchObject({ reason: failures[0] });
    for (const call of callsOf(store)) await expect(call()).rejects.toThrow(StoreFailedError);
    expect(failures).toHaveLength(1);
  });

  it('does not include short writes, which are continued', async () => {
    const directory = await temporaryDirectory();
    const store = await open(directory, { files: interceptFiles(() => {}, 7) });
    await store.add({ pet: animal('a long enough name') });
    await store.close();
    expect(await allTexts(await open(directory))).toHaveLength(1);
  });

  it.each(['EIO', 'ENOSPC'])('at any call loses nothing that was acknowledged: %s', async (code) => {
    for (let failAt = 0, isDone = false; !isDone; failAt++) {
      let calls = 0;
      const files = interceptFiles(() => {
        if (calls++ === failAt) throw errno(code);
      });
      const directory = join(await temporaryDirectory(), 'store');
      const acknowledged: string[] = [];
      try {
        const store = await openJournalStore({ directory, files });
        try {
          await store.seed({ pets: [{ id: 5n, ...animal() }], orders: [{}] });
          acknowledged.push(...(await allTexts(store)));
          for (const name of ['a', 'b']) {
            const result = await store.add({ pet: animal(name) });
            if (result.kind === 'added') acknowledged.push(result.pet);
          }
        } finally {
          await store.close();
        }
        isDone = calls <= failAt;
      } catch (error) {
        expect(error).toBeInstanceOf(StoreError);
        expect((error as Error).message).toContain(code);
      }
      const again = await openJournalStore({ directory });
      expect((await allTexts(again)).slice(0, acknowledged.length)).toEqual(acknowledged);
      await again.close();
    }
  });

  it('to reserve an idempotency key leaves no empty batch', async () => {
    const directory = await temporaryDirectory();
    await (await open(directory)).close();
    const journal = await loadJournal(realFileSystem, directory, Date.now(), () => {});
    const writer = new JournalWriter(journal, manualClock(), (error) => error as Error);
    journal.contents.keys.reserve = () => {
      throw new RangeError('Array buffer allocation failed');
    };
    const entry = (id: bigint, key?: string): NewEntry => {
      const text = petJson({ ...animal(), id });
      const fingerprint = key === undefined ? undefined : fingerprintOf(idempotency(key), 'secret');
      return { id, status: 'available', text, bytes: recordBytes(text, fingerprint), fingerprint };
    };
    const first = writer.add(entry(1n));
    // Now the first batch is being written, and the next animal starts another one.
    await new Promise(setImmediate);
    expect(() => writer.add(entry(2n, 'k'))).toThrow(RangeError);
    await first;
    await writer.add(entry(3n));
    await writer.finish();
    await journal.file.close();
    expect(await allTexts(await open(directory))).toHaveLength(2);
  });
});

describe.skipIf(process.platform === 'win32')('a journal that another program changes', () => {
  async function openWithOne() {
    const directory = await temporaryDirectory();
    const failures: Error[] = [];
    const store = await open(directory, { onFailure: (error) => failures.push(error) });
    await store.add({ pet: animal() });
    return { directory, path: pathIn(directory), store, failures };
  }

  it.each<[string, (path: string, directory: string) => Promise<unknown>, string]>([
    ['deletes it', (path) => rm(path), 'was deleted'],
    ['deletes its directory', (_, directory) => rm(directory, { recursive: true }), 'was deleted'],
    [
      'replaces it',
      (path) => writeFile(`${path}.x`, '').then(() => rename(`${path}.x`, path)),
      'was deleted',
    ],
    ['empties it', (path) => truncate(path), 'changed the file'],
    ['truncates it', (path) => truncate(path, 10), 'changed the file'],
    ['appends to it', (path) => appendFile(path, '{}\n{}\n{}\n{}\n{}\n'.repeat(100)), 'changed the file'],
  ])('stops the store before the next animal is acknowledged: %s', async (_name, change, message) => {
    const { directory, path, store, failures } = await openWithOne();
    await change(path, directory);
    const error = await store.add({ pet: animal() }).catch((reason) => reason);
    expect(error).toBeInstanceOf(StoreFailedError);
    expect(error.message).toContain(message);
    expect(error.message).toContain(path);
    await expect(store.list({ limit: 1 })).rejects.toThrow(StoreFailedError);
    expect(failures).toHaveLength(1);
  });

  it('stays usable under another name', async () => {
    const { path, store } = await openWithOne();
    await rename(path, `${path}.moved`);
    await store.add({ pet: animal() });
    await store.close();
    expect((await readFile(`${path}.moved`, 'utf8')).trim().split('\n')).toHaveLength(3);
  });
});

describe('a page of long animals', () => {
  it.each([undefined, 'sold'] as const)('ends after about 1 MiB (status %s)', async (status) => {
    const store = await open(await temporaryDirectory());
    const pet = animal('x'.repeat(60_000), { status: 'sold' });
    await Promise.all(Array.from({ length: 50 }, () => store.add({ pet })));
    const pages: Page[] = [];
    do pages.push(await store.list({ limit: 100, status, after: pages.at(-1)?.next }));
    while (pages.at(-1)?.next !== undefined && pages.length < 50);
    const ids = pages.flatMap(textsOf).map((text) => JSON.parse(text).id);
    expect(ids).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
    expect(pages.map((page) => textsOf(page).length)).toEqual([18, 18, 14]);
  });

  it('has at least one animal', async () => {
    const store = await open(await temporaryDirectory());
    for (let i = 0; i < 2; i++) await store.add({ pet: animal('x'.repeat(2_000_000)) });
    const page = await store.list({ limit: 2 });
    expect(textsOf(page)).toHaveLength(1);
    expect(page.next).toBe(1n);
  });
});
