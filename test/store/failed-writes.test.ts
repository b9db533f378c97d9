import { copyFile, readdir, readFile, rename, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreFailedError, StoreUnwritableError } from '../../src/store/errors.ts';
import { openJournalStore } from '../../src/store/journal/journal-store.ts';
import { acquireDirectoryLock } from '../../src/system/directory-lock.ts';
import { LockError } from '../../src/system/file-system.ts';
import { manualClock } from '../helpers/clock.ts';
import { errno, type Intercept, interceptFiles } from '../helpers/store-faults.ts';
import { allTexts, animal, callsOf, idempotency, textsOf } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const KEYED = { pet: animal('keyed'), idempotency: idempotency('k') };
const withId = (id: number) => ({ pet: expect.stringContaining(`{"id":${id},`) });
const journalIn = (directory: string) => readFile(join(directory, 'journal.ndjson'), 'utf8');
const namesIn = async (directory: string) =>
  (await readdir(directory)).filter((name) => !name.startsWith('lock-')).sort();

/** Opens a store. `faults.on` has the error codes of the calls of the file system, or of `lock`, that fail. */
async function openFaulty(directory: string, on: Record<string, string> = {}) {
  const faults: { on: Record<string, string>; onCall?: Intercept } = { on };
  const files = interceptFiles(async (name, path) => {
    await faults.onCall?.(name, path);
    const code = faults.on[name];
    if (code !== undefined) throw errno(code);
  });
  const clock = manualClock();
  const [warnings, failures]: [string[], Error[]] = [[], []];
  const store = await openJournalStore({
    directory,
    clock,
    files,
    lock: async (path) => {
      const code = faults.on['lock'];
      if (code !== undefined) throw new LockError('cannot create a socket', '', { cause: errno(code) });
      return acquireDirectoryLock(path);
    },
    onWarning: (message) => warnings.push(message),
    onFailure: (error) => failures.push(error),
  });
  onTestFinished(() => store.close());
  return { store, faults, clock, warnings, failures };
}

async function openWithOne() {
  const directory = await temporaryDirectory();
  const opened = await openFaulty(directory);
  const first = await opened.store.add(KEYED);
  return { directory, first, ...opened };
}

describe('while the disk refuses writes', () => {
  it.each([
    ['write', 'ENOSPC'],
    ['write', 'EDQUOT'],
    ['write', 'errno -122'],
    ['write', 'EROFS'],
    ['datasync', 'ENOSPC'],
  ])('creations are refused, reads and replays continue, and nothing is left: %s, %s', async (call, code) => {
    const { directory, store, first, faults, warnings, failures } = await openWithOne();
    const before = await journalIn(directory);
    let syncs = 0;
    // Only the sync of the new record fails, not that of the truncation.
    faults.onCall = (name) => {
      if (name === 'datasync' && call === 'datasync') faults.on = syncs++ % 2 === 0 ? { datasync: code } : {};
    };
    if (call === 'write') faults.on = { write: code };
    // 2,500 animals fill several batches.
    const adding = Array.from({ length: 2500 }, (_, i) =>
      store.add({ pet: animal(`n${i}`), idempotency: idempotency(`k${i}`) }),
    );
    for (const result of await Promise.allSettled(adding)) {
      expect(result).toMatchObject({ reason: expect.any(StoreUnwritableError) });
    }
    expect(await journalIn(directory)).toBe(before);
    expect(textsOf(await store.list({ limit: 10 }))).toHaveLength(1);
    expect(await store.add(KEYED)).toEqual({ ...first, kind: 'replayed' });
    expect(warnings).toEqual([
      expect.stringMatching(
        `${code === 'errno -122' ? 'EDQUOT: the disk quota' : code}.*; the store is read-only until`,
      ),
    ]);

    faults.on = {};
    delete faults.onCall;
    // The idempotency keys and the ids of refused creations can be used again.
    const again = { pet: animal('n7'), idempotency: idempotency('k7') };
    expect(await store.add(again)).toMatchObject({ kind: 'added', ...withId(2) });
    expect((await store.add(again)).kind).toBe('replayed');
    expect(warnings.slice(1)).toEqual([expect.stringContaining('can be written again')]);
    expect(failures).toEqual([]);
  });

  it('appends nothing until what a failed write left was removed', async () => {
    const { directory, store, faults } = await openWithOne();
    const before = await journalIn(directory);
    // The record is written, but neither the sync nor the truncation succeed. So the outcome is unknown.
    faults.on = { datasync: 'ENOSPC', truncate: 'ENOSPC' };
    await expect(store.add({ pet: animal('lost') })).rejects.toThrow(StoreFailedError);
    expect(await journalIn(directory)).toContain('lost');
    const calls: string[] = [];
    faults.onCall = (name) => void calls.push(name);
    faults.on = { truncate: 'ENOSPC' };
    await expect(store.add({ pet: animal() })).rejects.toThrow(StoreUnwritableError);
    expect(calls).not.toContain('write');
    faults.on = {};
    expect(await store.add({ pet: animal() })).toMatchObject(withId(2));
    expect(await journalIn(directory)).toMatch(
      new RegExp(`^${before.replace(/[{}[\]?]/g, '\\$&')}.*"id":2.*\n$`),
    );
  });
});

describe.each(['write', 'datasync'])('after an I/O error of %s', (call) => {
  it('creations fail until the store is opened again, and reads and replays continue', async () => {
    const { directory, store, first, faults, warnings, failures } = await openWithOne();
    faults.on = { [call]: 'EIO' };
    const results = await Promise.allSettled(
      Array.from({ length: 2500 }, (_, i) => store.add({ pet: animal(`n${i}`) })),
    );
    for (const result of results) expect(result).toMatchObject({ reason: expect.any(StoreFailedError) });
    faults.on = {};
    await expect(store.add({ pet: animal() })).rejects.toThrow(StoreFailedError);
    await expect(store.checkWritable()).rejects.toThrow(StoreFailedError);
    expect(await allTexts(store)).toHaveLength(1);
    expect(await store.add(KEYED)).toEqual({ ...first, kind: 'replayed' });
    expect(warnings).toEqual([expect.stringMatching(/EIO.*until the server is restarted$/)]);
    expect(failures).toEqual([]);
    await store.close();
    const { store: reopened } = await openFaulty(directory);
    expect(await reopened.add({ pet: animal() })).toMatchObject({ kind: 'added' });
  });
});

it('checkWritable fails while a file cannot be created, and checks at most once a second', async () => {
  const { store, faults, clock, directory } = await openWithOne();
  await store.checkWritable();
  faults.on = { 'open create': 'ENOSPC' };
  await store.checkWritable();
  clock.advance(1_000);
  await expect(store.checkWritable()).rejects.toThrow(StoreUnwritableError);
  faults.on = {};
  clock.advance(1_000);
  await store.checkWritable();
  expect(await namesIn(directory)).toEqual(['journal.ndjson']);
});

describe.each(['EMFILE', 'ENFILE', 'EACCES', 'EPERM'])(
  'checkWritable, if creating a file fails: %s',
  (code) => {
    it('succeeds without a warning, because the journal can be written', async () => {
      const { store, faults, warnings } = await openWithOne();
      faults.on = { 'open create': code };
      await store.checkWritable();
      expect(await store.add({ pet: animal() })).toMatchObject({ kind: 'added' });
      expect(warnings).toEqual([]);
    });

    it('does not report that a full disk can be written again', async () => {
      const { store, faults, warnings } = await openWithOne();
      faults.on = { 'open create': code, write: 'ENOSPC' };
      await expect(store.add({ pet: animal() })).rejects.toThrow(StoreUnwritableError);
      await store.checkWritable();
      expect(warnings).toEqual([expect.stringContaining('ENOSPC')]);
    });
  },
);

describe('opening a store on a disk that refuses writes', () => {
  async function closedStore() {
    const { directory, store } = await openWithOne();
    await store.add({ pet: animal('second') });
    await store.close();
    return directory;
  }

  it.each([
    ['a read-only file system', { lock: 'EROFS', 'open readwrite': 'EROFS', 'open create': 'EROFS' }],
    ['no space for a socket', { lock: 'ENOSPC' }],
    ['no space to sync the last record again', { write: 'ENOSPC' }],
  ])('serves reads, and writes once that is possible: %s', async (_, on) => {
    const directory = await closedStore();
    const { store, faults, clock, warnings } = await openFaulty(directory, on);
    expect(warnings).toEqual([
      expect.stringContaining('the store is read-only until'),
      expect.stringMatching(
        /^the last record of .* may not be on the disk yet; pets serve writes it again as soon as/,
      ),
    ]);
    expect(await allTexts(store)).toHaveLength(2);
    expect((await store.add(KEYED)).kind).toBe('replayed');
    await expect(store.add({ pet: animal() })).rejects.toThrow(StoreUnwritableError);
    expect(await namesIn(directory)).toEqual(['journal.ndjson']);
    faults.on = {};
    clock.advance(1_000);
    expect(await store.add({ pet: animal() })).toMatchObject(withId(3));
    expect(store.isLocked).toBe(true);
  });

  it('reports a torn end that it leaves out', async () => {
    const directory = await closedStore();
    await truncate(join(directory, 'journal.ndjson'), (await journalIn(directory)).length - 3);
    const { store, warnings } = await openFaulty(directory, { lock: 'EROFS' });
    expect(warnings).toContainEqual(
      expect.stringMatching(/contain 1 complete animal .*; the server does not use these bytes$/),
    );
    expect(await allTexts(store)).toHaveLength(1);
  });

  it('does not repeat a response that may not be on the disk', async () => {
    const { directory, store } = await openWithOne();
    await store.close();
    const { store: readOnly, faults, clock } = await openFaulty(directory, { lock: 'EROFS' });
    await expect(readOnly.add(KEYED)).rejects.toThrow(StoreFailedError);
    faults.on = {};
    clock.advance(1_000);
    expect((await readOnly.add(KEYED)).kind).toBe('replayed');
  });

  it('stops as soon as another server has written, and never serves its old list', async () => {
    const directory = await closedStore();
    const { store, faults, clock, failures } = await openFaulty(directory, { lock: 'EROFS' });
    const { store: other } = await openFaulty(directory);
    expect(await allTexts(store)).toHaveLength(2);
    faults.on = {};
    clock.advance(1_000);
    await expect(store.add({ pet: animal() })).rejects.toThrow(/in use by another server/);
    await other.add({ pet: animal('other') });
    for (const call of Object.values(callsOf(store)))
      await expect(call()).rejects.toThrow(/another program changed/);
    expect(failures).toEqual([expect.any(StoreFailedError)]);
    expect(await other.size()).toBe(3);
  });

  it('writes after another server has used the store without changing it', async () => {
    const directory = await closedStore();
    const { store, faults, clock } = await openFaulty(directory, { lock: 'EROFS' });
    const { store: other } = await openFaulty(directory);
    await other.close();
    faults.on = {};
    clock.advance(1_000);
    expect(await store.add({ pet: animal() })).toMatchObject(withId(3));
    expect(await store.seed({ pets: [], orders: [] })).toBe(false);
  });

  it.each(['before', 'after'])(
    'never writes to another store that replaced its own %s it has locked the directory',
    async (when) => {
      const directory = await closedStore();
      const { store, faults, clock, failures } = await openFaulty(directory, { lock: 'EROFS' });
      const otherDirectory = await closedStore();
      await copyFile(join(otherDirectory, 'journal.ndjson'), join(directory, 'new'));
      const replace = () => rename(join(directory, 'new'), join(directory, 'journal.ndjson'));
      const before = await journalIn(otherDirectory);
      faults.on = {};
      clock.advance(1_000);
      if (when === 'before') await replace();
      else faults.onCall = (name) => (name === 'open readwrite' ? replace() : undefined);
      await expect(store.add({ pet: animal() })).rejects.toThrow(/was moved, replaced or deleted/);
      expect(await journalIn(directory)).toBe(before);
      expect(failures).toHaveLength(1);
      expect(store.isLocked).toBe(when === 'after');
    },
  );

  it('fails if there is no journal, and leaves no files', async () => {
    const directory = await temporaryDirectory();
    await expect(openFaulty(directory, { write: 'ENOSPC' })).rejects.toThrow('ENOSPC');
    expect(await namesIn(directory)).toEqual([]);
  });
});
