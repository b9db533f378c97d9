import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreFailedError, StoreUnwritableError } from '../../src/store/errors.ts';
import { manualClock } from '../helpers/clock.ts';
import { errno, type Intercept, interceptFiles } from '../helpers/store-faults.ts';
import {
  allTexts,
  animal,
  callsOf,
  idempotency,
  noLock,
  openJournalStore,
  seedOf,
  textsOf,
  withId,
} from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const KEYED = { pet: animal('keyed'), idempotency: idempotency('k') };
const journalIn = (directory: string) => readFile(join(directory, 'journal.ndjson'), 'utf8');
const namesIn = async (directory: string) => (await readdir(directory)).sort();

/** Opens a store. `faults.on` has the error codes of the calls of the file system that fail. */
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
    lock: noLock,
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

it.each([
  ['write', 'ENOSPC', 'no space left on device'],
  ['write', 'EDQUOT', 'the disk quota is used up'],
  ['write', 'errno -122', 'the disk quota is used up'],
  ['write', 'EROFS', 'read-only file system'],
  ['datasync', 'ENOSPC', 'no space left on device'],
])(
  'while the disk refuses writes, creations are refused, reads and replays continue, and nothing is left: %s, %s',
  async (call, code, words) => {
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
    const warning = `${words}.*; animals cannot be added until the disk accepts writes`;
    expect(warnings).toEqual([expect.stringMatching(warning)]);

    faults.on = {};
    delete faults.onCall;
    // The idempotency keys and the ids of refused creations can be used again.
    const again = { pet: animal('n7'), idempotency: idempotency('k7') };
    expect(await store.add(again)).toMatchObject({ kind: 'added', ...withId(2n) });
    expect((await store.add(again)).kind).toBe('replayed');
    expect(warnings.slice(1)).toEqual([expect.stringContaining('can be written again')]);
    expect(failures).toEqual([]);
  },
);

describe('a store that has failed', () => {
  it.each<Record<string, string>>([
    { write: 'EIO' },
    { datasync: 'EIO' },
    { stat: 'EIO' },
    // The undoing of a refused write fails.
    { datasync: 'ENOSPC' },
    { datasync: 'ENOSPC', truncate: 'ENOSPC' },
    { datasync: 'EDQUOT', truncate: 'EIO' },
  ])(
    'stops: requests in flight and all later calls fail, and the reason is reported once: %j',
    async (on) => {
      const { directory, store, faults, warnings, failures } = await openWithOne();
      faults.on = on;
      const adding = Array.from({ length: 2500 }, (_, i) => store.add({ pet: animal(`n${i}`) }));
      for (const result of await Promise.allSettled(adding))
        expect(result).toMatchObject({ reason: expect.any(StoreFailedError) });
      faults.on = {};
      for (const [name, later] of Object.entries(callsOf(store)))
        await expect(later(), name).rejects.toThrow(StoreFailedError);
      expect(warnings).toEqual([]);
      expect(failures).toEqual([expect.any(StoreFailedError)]);
      await store.close();
      const { store: reopened } = await openFaulty(directory);
      expect(await reopened.add({ pet: animal() })).toMatchObject({ kind: 'added' });
    },
  );

  it('stops in the middle of a reset', async () => {
    const { store, faults, failures } = await openWithOne();
    faults.on = { rename: 'EIO' };
    await expect(store.reset(seedOf())).rejects.toThrow(StoreFailedError);
    expect(failures).toHaveLength(1);
  });
});

it('a reset on a full disk, or with ids that do not ascend, is refused, and changes nothing', async () => {
  const { directory, store, faults, failures } = await openWithOne();
  faults.on = { 'open create': 'ENOSPC' };
  await expect(store.reset(seedOf())).rejects.toThrow(StoreUnwritableError);
  faults.on = {};
  await expect(store.reset(seedOf(5n, 3n))).rejects.toThrow('ids must ascend');
  expect(failures).toEqual([]);
  expect(await allTexts(store)).toEqual([expect.stringContaining('keyed')]);
  expect(await namesIn(directory)).toEqual(['journal.ndjson', 'store.txt']);
});

it('the check whether the store can write does what a creation needs, which is no new file', async () => {
  const { store, faults, directory } = await openWithOne();
  const before = await journalIn(directory);
  faults.on = { 'open create': 'ENOSPC' };
  await store.checkWritable();
  faults.on = { write: 'ENOSPC' };
  await expect(store.checkWritable()).rejects.toThrow(StoreUnwritableError);
  faults.on = {};
  await store.checkWritable();
  expect(await journalIn(directory)).toBe(before);
});

describe('a store that is opened on a full disk', () => {
  /** A closed store, whose journal may have a torn end. */
  async function closedStore({ isTorn = false } = {}) {
    const { directory, store } = await openWithOne();
    await store.add({ pet: animal('second') });
    await store.close();
    const journal = await journalIn(directory);
    if (isTorn) await truncate(join(directory, 'journal.ndjson'), journal.length - 3);
    return directory;
  }

  it('serves reads, and adds animals as soon as there is space', async () => {
    const { store, faults, warnings } = await openFaulty(await closedStore(), { write: 'ENOSPC' });
    expect(warnings).toEqual([
      expect.stringMatching(
        /no space left on device; animals cannot be added until the disk accepts writes$/,
      ),
    ]);
    expect(await allTexts(store)).toHaveLength(2);
    await expect(store.add({ pet: animal() })).rejects.toThrow(StoreUnwritableError);
    // The animal was added, but its record may not be on the disk, so this is not the moment to say so.
    expect(await store.add(KEYED)).toEqual({ kind: 'in_flight' });
    faults.on = {};
    expect((await store.add(KEYED)).kind).toBe('replayed');
    expect(await store.add({ pet: animal() })).toMatchObject(withId(3n));
    expect(warnings.slice(1)).toEqual([expect.stringMatching(/ can be written again$/)]);
  });

  it.each(['open create', 'datasync'])(
    'leaves a torn end until there is space, and then names its backup: %s fails',
    async (call) => {
      const directory = await closedStore({ isTorn: true });
      const torn = await journalIn(directory);
      const { store, faults, warnings } = await openFaulty(directory, { [call]: 'ENOSPC' });
      expect(await allTexts(store)).toHaveLength(1);
      expect(await journalIn(directory)).toBe(torn);
      faults.on = {};
      await store.checkWritable();
      const [backup = ''] = (await namesIn(directory)).filter((name) => name.startsWith('journal.torn-'));
      expect(warnings.at(-2)).toContain(`were moved to ${join(directory, backup)};`);
      expect(torn.endsWith(await readFile(join(directory, backup), 'utf8'))).toBe(true);
      expect(await store.add({ pet: animal() })).toMatchObject({ kind: 'added' });
    },
  );

  it('fails if there is no journal, and leaves no files', async () => {
    const directory = await temporaryDirectory();
    await expect(openFaulty(directory, { write: 'ENOSPC' })).rejects.toThrow('no space left');
    expect(await namesIn(directory)).toEqual([]);
  });
});

it('opening a store writes the last record again, and syncs it, before it resolves', async () => {
  const { directory, store } = await openWithOne();
  await store.close();
  const calls: string[] = [];
  const files = interceptFiles((name, path) => {
    if (path.endsWith('journal.ndjson')) calls.push(name);
  });
  const reopened = await openJournalStore({ directory, files });
  onTestFinished(() => reopened.close());
  expect(calls.slice(calls.indexOf('write'))).toEqual(['write', 'datasync', 'stat']);
});

describe('a directory whose journal is missing', () => {
  it.each(['store.txt', 'keys', 'bans.json', 'journal.bak', 'journal.torn-1-01234567', 'journal.ndjson~'])(
    'is refused if %s shows that there was one',
    async (name) => {
      const directory = await temporaryDirectory();
      await writeFile(join(directory, name), '');
      await expect(openFaulty(directory)).rejects.toThrow(
        `journal.ndjson is missing, but the directory contains other files that a store has: ${name}`,
      );
      expect(await namesIn(directory)).toEqual([name]);
    },
  );

  it('is refused after any use, and a store without the marker gets one at the next start', async () => {
    const { directory, store } = await openWithOne();
    await store.close();
    await rm(join(directory, 'store.txt'));
    await (await openFaulty(directory)).store.close();
    await rm(join(directory, 'journal.ndjson'));
    await expect(openFaulty(directory)).rejects.toThrow('other files that a store has: store.txt');
  });
});
