import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreFailedError, StoreUnwritableError } from '../../src/store/errors.ts';
import { LockError } from '../../src/system/file-system.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { errno, type Intercept, interceptFiles } from '../helpers/store-faults.ts';
import {
  allTexts,
  animal,
  callsOf,
  idempotency,
  openJournalStore,
  textsOf,
} from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const KEYED = { pet: animal('keyed'), idempotency: idempotency('k') };
const withId = (id: number) => ({ pet: expect.stringContaining(`{"id":${id},`) });
const journalIn = (directory: string) => readFile(join(directory, 'journal.ndjson'), 'utf8');
const namesIn = async (directory: string) =>
  (await readdir(directory)).filter((name) => !name.startsWith('lock-')).sort();

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
        `${code === 'errno -122' ? 'EDQUOT: the disk quota' : code}.*; animals cannot be added until there is space`,
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

  it('what a refused creation has written is removed and synced before the response', async () => {
    const { directory, store, faults } = await openWithOne();
    const before = await journalIn(directory);
    const calls: string[] = [];
    faults.onCall = (name) => {
      calls.push(name);
      // Only the first sync fails.
      faults.on = calls.filter((each) => each === 'datasync').length === 1 ? { datasync: 'ENOSPC' } : {};
    };
    await expect(store.add({ pet: animal('lost') })).rejects.toThrow(StoreUnwritableError);
    expect(calls.slice(calls.indexOf('truncate'))).toContain('datasync');
    expect(await journalIn(directory)).toBe(before);
  });
});

describe('a store that has failed', () => {
  it.each([
    ['write', 'EIO'],
    ['datasync', 'EIO'],
    ['stat', 'EIO'],
    ['write', 'EBADF'],
    ['datasync', 'ENOSPC', 'truncate', 'ENOSPC'],
    ['datasync', 'ENOSPC', 'truncate', 'EROFS'],
    ['datasync', 'EDQUOT', 'truncate', 'EIO'],
  ])(
    'stops: requests in flight and all later calls fail, and the reason is reported once: %s',
    async (...row) => {
      const [call, code, second = call, secondCode = code] = row;
      const { directory, store, faults, warnings, failures } = await openWithOne();
      faults.on = { [call]: code, [second]: secondCode };
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

  it('stops if undoing a refused write cannot be synced', async () => {
    const { store, faults, failures } = await openWithOne();
    faults.on = { datasync: 'ENOSPC' };
    await expect(store.add({ pet: animal() })).rejects.toThrow(StoreFailedError);
    expect(failures).toHaveLength(1);
  });

  it('stops in the middle of a reset', async () => {
    const { store, faults, failures } = await openWithOne();
    faults.on = { rename: 'EIO' };
    await expect(store.reset({ pets: [], orders: [] })).rejects.toThrow(StoreFailedError);
    expect(failures).toHaveLength(1);
  });
});

it('a reset with ids that do not ascend is refused, and changes nothing', async () => {
  const { directory, store, failures } = await openWithOne();
  const pets = [5n, 3n].map((id) => ({ id, ...animal() }));
  await expect(store.reset({ pets, orders: [] })).rejects.toThrow('ids must ascend');
  expect([await allTexts(store), failures, await namesIn(directory)]).toEqual([
    [expect.stringContaining('keyed')],
    [],
    ['journal.ndjson', 'store.txt'],
  ]);
});

it('after a reset whose new journal could not be written again, a creation waits for space', async () => {
  const { store, faults, clock } = await openWithOne();
  await store.checkWritable();
  faults.onCall = (name) => {
    if (name === 'rename') faults.on = { write: 'ENOSPC' };
  };
  await store.reset({ pets: [], orders: [] });
  await expect(store.add({ pet: animal() })).rejects.toThrow(StoreUnwritableError);
  delete faults.onCall;
  faults.on = {};
  clock.advance(1_000);
  expect(await store.add({ pet: animal() })).toMatchObject(withId(1));
});

it('a reset on a full disk is refused, and changes nothing', async () => {
  const { directory, store, faults, failures } = await openWithOne();
  faults.on = { 'open create': 'ENOSPC' };
  await expect(store.reset({ pets: [], orders: [] })).rejects.toThrow(StoreUnwritableError);
  faults.on = {};
  expect(failures).toEqual([]);
  expect(await allTexts(store)).toHaveLength(1);
  expect(await namesIn(directory)).toEqual(['journal.ndjson', 'store.txt']);
});

describe('checkWritable', () => {
  it('does what a creation needs', async () => {
    const { store, faults, directory } = await openWithOne();
    const before = await journalIn(directory);
    await store.checkWritable();
    faults.on = { write: 'ENOSPC' };
    await expect(store.checkWritable()).rejects.toThrow(StoreUnwritableError);
    faults.on = {};
    await store.checkWritable();
    expect(await journalIn(directory)).toBe(before);
  });

  it.each(['ENOSPC', 'EMFILE', 'EACCES'])(
    'succeeds if no file can be created, because the journal can be written: %s',
    async (code) => {
      const { store, faults, clock, warnings } = await openWithOne();
      faults.on = { 'open create': code };
      clock.advance(1_000);
      await store.checkWritable();
      expect(await store.add({ pet: animal() })).toMatchObject({ kind: 'added' });
      expect(warnings).toEqual([]);
    },
  );
});

describe('a store that was opened on a full disk', () => {
  /** A store with a torn end that could not be moved to a backup. `hold` stops the next call with this name. */
  async function openedFull() {
    const { directory, store } = await openWithOne();
    await store.add({ pet: animal('second') });
    await store.close();
    await truncate(join(directory, 'journal.ndjson'), (await journalIn(directory)).length - 3);
    const opened = await openFaulty(directory, { 'open create': 'ENOSPC' });
    opened.faults.on = {};
    opened.clock.advance(1_000);
    const hold = (call: string) => {
      const [held, released] = [gate(), gate()];
      opened.faults.onCall = async (name) => {
        if (name !== call) return;
        delete opened.faults.onCall;
        held.open();
        await released.opened;
      };
      return { held: held.opened, release: released.open };
    };
    return { directory, hold, ...opened };
  }

  it.each(['write', 'datasync', 'rename', 'syncDirectory', 'truncate', 'open readwrite'])(
    'becomes writable once, also for a creation during a slow %s',
    async (call) => {
      const { store, clock, failures, hold, directory } = await openedFull();
      const { held, release } = hold(call);
      const checking = store.checkWritable();
      await held;
      clock.advance(2_000);
      const adding = store.add({ pet: animal('third') });
      release();
      await checking;
      expect((await adding).kind).toBe('added');
      expect(failures).toEqual([]);
      await store.close();
      const { store: reopened } = await openFaulty(directory);
      expect(await allTexts(reopened)).toEqual([
        expect.stringContaining('keyed'),
        expect.stringContaining('third'),
      ]);
    },
  );

  it('can be reset while a check runs, and closed only after it', async () => {
    const { store, failures, hold } = await openedFull();
    const first = hold('rename');
    const both = Promise.all([store.checkWritable(), store.reset({ pets: [], orders: [] })]);
    await first.held;
    first.release();
    await both;
    expect([await store.size(), failures]).toEqual([0, []]);
    const other = await openedFull();
    const second = other.hold('rename');
    const checking = other.store.checkWritable();
    await second.held;
    let isClosed = false;
    const closing = other.store.close().then(() => {
      isClosed = true;
    });
    await new Promise(setImmediate);
    expect(isClosed).toBe(false);
    second.release();
    await Promise.allSettled([checking, closing]);
  });
});

describe('opening a store', () => {
  async function closedStore() {
    const { directory, store } = await openWithOne();
    await store.add({ pet: animal('second') });
    await store.close();
    return directory;
  }

  it('on a full disk serves reads, and adds animals as soon as there is space', async () => {
    const directory = await closedStore();
    const { store, faults, clock, warnings } = await openFaulty(directory, { write: 'ENOSPC' });
    expect(warnings).toEqual([
      expect.stringMatching(/ENOSPC.*; animals cannot be added until there is space$/),
    ]);
    expect(await allTexts(store)).toHaveLength(2);
    await expect(store.add({ pet: animal() })).rejects.toThrow(StoreUnwritableError);
    // The animal was added, but its record may not be on the disk, so this is not the moment to say so.
    expect(await store.add(KEYED)).toEqual({ kind: 'in_flight' });
    faults.on = {};
    clock.advance(1_000);
    expect((await store.add(KEYED)).kind).toBe('replayed');
    expect(await store.add({ pet: animal() })).toMatchObject(withId(3));
    expect(warnings.slice(1)).toEqual([expect.stringMatching(/ can be written again$/)]);
  });

  it('on a full disk leaves a torn end until there is space', async () => {
    const directory = await closedStore();
    const torn = (await journalIn(directory)).slice(0, -3);
    await truncate(join(directory, 'journal.ndjson'), torn.length);
    const { store, faults, clock } = await openFaulty(directory, { 'open create': 'ENOSPC' });
    expect(await allTexts(store)).toHaveLength(1);
    expect(await journalIn(directory)).toBe(torn);
    faults.on = {};
    clock.advance(1_000);
    expect(await store.add({ pet: animal() })).toMatchObject({ kind: 'added' });
    expect(await namesIn(directory)).toContainEqual(expect.stringMatching(/^journal\.torn-/));
  });

  it('writes the last record again and syncs it before it resolves', async () => {
    const directory = await closedStore();
    const last = (await journalIn(directory)).trimEnd().split('\n').at(-1) ?? '';
    const calls: string[] = [];
    const files = interceptFiles((name, path) => {
      if (path.endsWith('journal.ndjson')) calls.push(name);
    });
    const store = await openJournalStore({ directory, files });
    onTestFinished(() => store.close());
    expect(last).toContain('second');
    expect(calls.slice(calls.indexOf('write'))).toEqual(['write', 'datasync', 'stat']);
  });

  it('is refused if the directory cannot be locked, with the reason and hint of the lock', async () => {
    const directory = await closedStore();
    const lock = () => Promise.reject(new LockError('no socket can be created', 'fix it'));
    await expect(openJournalStore({ directory, lock })).rejects.toMatchObject({
      name: 'StoreError',
      message: 'no socket can be created',
      hint: 'fix it',
    });
  });

  it('names the backup of a torn end, even if only a later attempt could write', async () => {
    const directory = await closedStore();
    await truncate(join(directory, 'journal.ndjson'), (await journalIn(directory)).length - 3);
    const { store, faults, clock, warnings } = await openFaulty(directory, { datasync: 'ENOSPC' });
    // The backup is complete, but the last record could not be written again.
    faults.on = {};
    clock.advance(1_000);
    await store.checkWritable();
    const [backup = ''] = (await namesIn(directory)).filter((name) => name.startsWith('journal.torn-'));
    expect(warnings.at(-2)).toContain(`were moved to ${join(directory, backup)};`);
    expect((await readFile(join(directory, backup))).length).toBeGreaterThan(0);
  });

  it('on a full disk fails if there is no journal, and leaves no files', async () => {
    const directory = await temporaryDirectory();
    await expect(openFaulty(directory, { write: 'ENOSPC' })).rejects.toThrow('ENOSPC');
    expect(await namesIn(directory)).toEqual([]);
  });
});

describe('a directory whose journal is missing', () => {
  it.each(['store.txt', 'keys', 'bans.json', 'journal.bak', 'journal.torn-1-01234567', 'journal.ndjson~'])(
    'is refused if %s shows that there was one',
    async (name) => {
      const directory = await temporaryDirectory();
      await writeFile(join(directory, name), '');
      await expect(openFaulty(directory)).rejects.toThrow(
        `journal.ndjson is missing, but the directory contains other files of a store: ${name}`,
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
    await expect(openFaulty(directory)).rejects.toThrow('other files of a store: store.txt');
  });
});
