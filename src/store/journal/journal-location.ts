import * as fs from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Clock } from '../../system/clock.ts';
import { acquireDirectoryLock, type DirectoryLock, isLockName } from '../../system/directory-lock.ts';
import {
  createFile,
  type FileSystem,
  fsyncAncestors,
  isMissing,
  isTemporaryName,
  makeDirectory,
  realFileSystem,
  removeFile,
  replaceFile,
  temporaryName,
} from '../../system/file-system.ts';
import {
  type Backend,
  MAX_READ_ANIMALS,
  type OpenOptions,
  READ_BATCH_BYTES,
  type StoreContents,
  type StoredAnimal,
  type StoreLocation,
} from '../backend.ts';
import { StoreError, StoreUnavailableError, storeMissingError, toStoreError } from '../errors.ts';
import { KeyCache, KeyManager, requireValidKeys } from '../keys.ts';
import { createMemoryLimiter } from '../limiter.ts';
import type { StoreReport } from '../store.ts';
import { encodeHeader, encodeJournal, JOURNAL_FILE, newHeader } from './format.ts';
import type { Journal } from './journal.ts';
import { JournalStore, type JournalStoreOptions, MARKER_FILE, writeMarker } from './journal-store.ts';
import { BANS_FILE, KeyFiles } from './key-files.ts';
import { readJournal, readJournalHeader } from './read-journal.ts';

/** Returns the location of a store in a directory. Its methods `open`, `read` and `write` lock the directory. */
export function journalLocation(
  place: string,
  clock: Clock,
  files: FileSystem = realFileSystem,
): StoreLocation {
  const directory = resolve(place);

  /** Returns a function that throws the reason of `signal` if that was aborted, otherwise the error as a StoreError. */
  const failWith =
    (action: string, signal?: AbortSignal) =>
    (error: unknown): never => {
      signal?.throwIfAborted();
      throw toStoreError(error, action);
    };

  /** @throws StoreError if the directory has no journal (`missing` if it has no file of a store), or cannot be read */
  async function requireJournal(): Promise<void> {
    const names = await files.readdir(directory).catch((error) => {
      return isMissing(error) ? [] : failWith(`read ${directory}`)(error);
    });
    if (!hasJournal(directory, names)) throw storeMissingError(directory);
  }

  async function read(signal?: AbortSignal): Promise<StoreContents> {
    await requireJournal();
    return readContents(directory, files, clock.now(), { signal }).catch(
      failWith(`read the store in ${directory}`, signal),
    );
  }

  return {
    place,
    isShared: false,
    open: (options) => openJournalBackend(directory, options, files),
    async manageKeys(task) {
      await requireJournal();
      const { id } = await readJournalHeader(directory, files).catch(
        failWith(`read the store in ${directory}`),
      );
      return task(new KeyManager(new KeyFiles(directory, files), clock), async () => id);
    },
    check: async () => (await read()).report,
    async read(task, signal) {
      await requireJournal();
      const lock = await acquireDirectoryLock(directory).catch(failWith(`lock ${directory}`));
      return read(signal)
        .then(task)
        .finally(() => lock.release());
    },
    write: (contents, accept, signal) =>
      fillDirectory(directory, files, () => writeContents(directory, contents, accept, files, signal)).catch(
        failWith(`write a store to ${directory}`, signal),
      ),
  };
}

/**
 * Whether a directory that contains these names has a journal.
 *
 * @throws StoreError if only other files show that there was a journal. A new journal would issue the same ids again
 */
function hasJournal(directory: string, names: readonly string[]): boolean {
  if (names.includes(JOURNAL_FILE)) return true;
  const traces = names.filter(
    (name) =>
      ['keys', BANS_FILE, MARKER_FILE].includes(name) ||
      (name.startsWith('journal.') && !isTemporaryName(name)),
  );
  if (traces.length === 0) return false;
  throw new StoreError(
    `${join(directory, JOURNAL_FILE)} is missing, but the directory contains other files that a store has: ${traces.join(', ')}`,
    `restore ${JOURNAL_FILE} from a backup, or use another directory; if a copy to this directory was interrupted, delete the directory, then copy again`,
  );
}

export type JournalOptions = JournalStoreOptions & {
  lock: (directory: string) => Promise<DirectoryLock>;
  /** The server's URL. Another process reports it if that process tries to lock the same directory. */
  url?: string | undefined;
  /** If aborted while the journal is being read, opening fails with its reason. */
  signal?: AbortSignal | undefined;
};

/**
 * Locks a directory and opens its store, or creates one (docs/serve.md). On a full disk, a store that exists can be read,
 * but not changed until there is space.
 *
 * @throws StoreError, or the reason of the signal. After an error, nothing stays locked
 */
export async function openJournalStore(options: JournalOptions): Promise<JournalStore> {
  const { lock: acquire, url, signal, ...settings } = options;
  const { directory, files, clock } = settings;
  let close = async () => {};
  try {
    await makeDirectory(files, directory);
    const lock = await acquire(directory);
    close = () => lock.release();
    if (url !== undefined) lock.announce(url);
    const names = await files.readdir(directory);
    if (!hasJournal(directory, names)) {
      const header = encodeHeader(newHeader(clock.now()));
      await replaceFile(files, join(directory, JOURNAL_FILE), [header]);
    }
    for (const name of names) {
      // A process that was killed has left these files.
      if (/^(journal|bans|store)[.]/.test(name) && isTemporaryName(name))
        await removeFile(files, join(directory, name));
    }
    const store = new JournalStore(settings, await readJournal(options), lock);
    close = () => store.close();
    await store.start();
    return store;
  } catch (error) {
    await close();
    signal?.throwIfAborted();
    throw toStoreError(error, `open the store in ${directory}`);
  }
}

/** Opens or creates the store in a directory for a server. Requests are counted in memory, and bans are saved in a file. */
async function openJournalBackend(
  directory: string,
  options: OpenOptions,
  files: FileSystem,
): Promise<Backend> {
  const { clock, sleep, onWarning, onSync = () => {} } = options;
  const store = await openJournalStore({ ...options, directory, files, onSync, lock: acquireDirectoryLock });
  try {
    const keyFiles = new KeyFiles(directory, files);
    const reportKeys = createProblemReporter(onWarning);
    const readKeys = async () => {
      const stored = await keyFiles.read().catch(({ message, hint, cause }: StoreError) => {
        reportKeys(`${message}; ${hint}`);
        throw new StoreUnavailableError(message, hint, { cause, outcome: 'not_done' });
      });
      reportKeys(undefined);
      // If the directory was moved, these keys may belong to another store, and the server would miss revocations.
      await store.requireInPlace();
      return stored;
    };
    const keys = new KeyCache(readKeys, { clock, sleep, onWarning });
    // This reports damaged keys before the first request. If no key can be read now, the server starts anyway, and
    // requests that need them fail.
    await keys.list().catch(() => {});
    const reportBans = createProblemReporter(onWarning);
    const limiter = createMemoryLimiter(clock, {
      rule: options.bans,
      stored: await keyFiles.bans(),
      async save(bans) {
        try {
          await store.requireInPlace();
          await keyFiles.saveBans(bans);
          reportBans(undefined);
          return true;
        } catch (error) {
          const { message, hint } = error as StoreError;
          reportBans(`${message}; so bans end if the server restarts; ${hint}`);
          return false;
        }
      },
    });
    await limiter.finishSaving();
    return {
      store,
      keys,
      limiter,
      async reset(seed) {
        await store.reset(seed);
        await limiter.clear();
      },
      banCounts: async () => limiter.banCounts(),
      async close() {
        await limiter.finishSaving();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Returns a function that reports a problem, and reports no other until it is called with undefined. */
function createProblemReporter(onWarning: (message: string) => void): (problem: string | undefined) => void {
  let isReported = false;
  return (problem) => {
    if (problem !== undefined && !isReported) onWarning(problem);
    isReported = problem !== undefined;
  };
}

/** A server may just be writing the last line. So a journal with a torn end is read up to this many times in all. */
const ATTEMPTS = 3;

/**
 * Reads and verifies everything in the store of a directory, even while a server uses it. A torn end is only reported.
 *
 * @param readAt idempotency keys that have expired at this time are left out; in milliseconds since the epoch
 * @param name the name of the journal's file
 * @throws StoreError, a system error, or the reason of `signal`
 */
async function readContents(
  directory: string,
  files: FileSystem,
  readAt: number,
  { name, signal }: { name?: string; signal?: AbortSignal | undefined } = {},
): Promise<StoreContents> {
  // With this clock, the ages of idempotency keys follow the system time.
  const clock = { now: () => readAt, elapsed: () => readAt };
  const settings = { directory, files, clock, name, signal };
  let journal = await readJournal(settings);
  for (let attempt = 1; attempt < ATTEMPTS && journal.tornEnd; attempt++)
    journal = await readJournal(settings);
  const { header, pets, orders, seq, nextId, tornEnd } = journal;
  const keyFiles = new KeyFiles(directory, files);
  const keys = requireValidKeys(await keyFiles.read());
  const { id, secret } = header;
  return {
    report: {
      id,
      animals: pets.size,
      orders: orders.length,
      keys: keys.length,
      lastId: nextId > 1n ? nextId - 1n : undefined,
      sequence: seq,
      tornEnd,
    },
    secret,
    nextId,
    orders,
    keys,
    bans: await keyFiles.bans(),
    readAt,
    async *animals() {
      yield* readAnimals(journal, readAt);
    },
  };
}

function* readAnimals({ pets, keys }: Journal, readAt: number): Generator<StoredAnimal[]> {
  const keysByPet = keys.byPet(readAt);
  let animals: StoredAnimal[] = [];
  let [position, length] = [0, 0];
  for (const pet of pets.entries()) {
    animals.push({ ...pet, idempotency: keysByPet.get(position++) });
    length += pet.text.length;
    if (animals.length < MAX_READ_ANIMALS && length < READ_BATCH_BYTES) continue;
    yield animals;
    animals = [];
    length = 0;
  }
  if (animals.length > 0) yield animals;
}

/**
 * Locks `target`, which must be an empty directory or not exist, and calls `write` to fill it. After an error of `write`,
 * deletes everything in `target` except the lock.
 */
async function fillDirectory(target: string, files: FileSystem, write: () => Promise<void>): Promise<void> {
  const contents = async () => (await files.readdir(target)).filter((name) => !isLockName(name));
  const requireEmpty = async () => {
    if ((await contents()).length === 0) return;
    const hint = 'copy to an empty directory, or to one that does not exist yet';
    throw new StoreError(`${target} is not empty`, hint);
  };
  await makeDirectory(files, target);
  await requireEmpty();
  const lock = await acquireDirectoryLock(target);
  try {
    // Another copy may have been complete before this one got the lock.
    await requireEmpty();
    await write().catch(async (error) => {
      // Delete the journal first: without it, no server opens the other files as a store.
      await fs.rm(join(target, JOURNAL_FILE), { force: true }).catch(() => {});
      for (const name of await contents())
        await fs.rm(join(target, name), { recursive: true }).catch(() => {});
      throw error;
    });
  } finally {
    await lock.release();
  }
}

/**
 * Writes the contents of a store to an empty directory that this process has locked. The journal gets its name late: if
 * the process is killed before, no server creates a store there, because `hasJournal` throws for `keys` without a journal.
 *
 * @param accept receives what was written, before the target becomes a store. If it throws, no store is created
 */
async function writeContents(
  target: string,
  contents: StoreContents,
  accept: (written: StoreReport) => void,
  files: FileSystem,
  signal: AbortSignal | undefined,
): Promise<void> {
  const keyFiles = new KeyFiles(target, files);
  await files.mkdir(keyFiles.path);
  for (const key of contents.keys) await keyFiles.add(key);
  if (contents.bans.size > 0) await keyFiles.saveBans(contents.bans);
  const temporary = temporaryName(JOURNAL_FILE);
  const { report, secret, readAt } = contents;
  const animals = contents.animals();
  const header = { ...newHeader(readAt), id: report.id, secret };
  const lines = encodeJournal(header, { ...contents, animals }, readAt);
  await createFile(files, join(target, temporary), lines);
  await files.syncDirectory(target);
  accept((await readContents(target, files, readAt, { name: temporary, signal })).report);
  await files.rename(join(target, temporary), join(target, JOURNAL_FILE));
  await fsyncAncestors(files, target);
  await writeMarker(files, target);
}
