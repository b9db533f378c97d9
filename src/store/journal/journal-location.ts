import { resolve } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import {
  abortable,
  errnoOf,
  type FileSystem,
  isMissing,
  realFileSystem,
  systemMessageOf,
} from '../../system/file-system.ts';
import { acquireDirectoryLock, type DirectoryLock } from '../../system/lock/directory-lock.ts';
import { timedSyncs } from '../../system/timed-syncs.ts';
import type { Backend, BackendOptions, StoreClaim, StoreContents, StoreLocation } from '../backend.ts';
import { fileSystemHint, StoreError, StoreMissingError, toStoreError } from '../errors.ts';
import { KeyCache } from '../keys/key-cache.ts';
import { createBanTracker } from '../limits/bans.ts';
import { createMemoryLimiter } from '../limits/memory-limiter.ts';
import { readContents, writeContents } from './directory-contents.ts';
import { hasJournal, openJournalStore, rethrowUnlessUnwritable } from './journal-store.ts';
import { KeyFiles, loadBans, saveBans } from './key-files.ts';
import { readJournalHeader } from './read-journal.ts';

/** A directory that contains a store, or can contain one. Only a server locks it. */
export function journalLocation(
  place: string,
  clock: Clock,
  files: FileSystem = realFileSystem,
): StoreLocation {
  const directory = resolve(place);

  /** Converts an error that occurred before `signal` was aborted. */
  const failWith =
    (action: string, signal?: AbortSignal) =>
    (error: unknown): never => {
      signal?.throwIfAborted();
      const isOfFile = error instanceof Error && 'path' in error;
      if (!isOfFile) throw toStoreError(error, action);
      // The usual hint suggests --data, which `pets store` does not have.
      const hint = fileSystemHint(errnoOf(error), 'choose another directory');
      throw new StoreError(`cannot ${action}: ${systemMessageOf(error)}`, hint, { cause: error });
    };

  /** @throws StoreMissingError, or another StoreError if other files show that there was a store */
  async function requireJournal(): Promise<void> {
    const names = await namesIn(directory, files).catch(failWith(`read ${directory}`));
    if (!hasJournal(directory, names)) throw new StoreMissingError(directory);
  }

  async function read(signal?: AbortSignal): Promise<StoreContents> {
    await requireJournal();
    return readContents(directory, abortable(files, signal), clock.now()).catch(
      failWith(`read the store in ${directory}`, signal),
    );
  }

  /** The id of the store. @throws StoreError if there is none, or another one than `expected` */
  async function storeId(expected?: string): Promise<string> {
    await requireJournal();
    const { id } = await readJournalHeader(directory, files).catch(
      failWith(`read the store in ${directory}`),
    );
    if (id === (expected ?? id)) return id;
    throw new StoreError(
      `${directory} was replaced by another store while its keys were in use`,
      'list the keys of both stores before you try again',
    );
  }

  return {
    place,
    isShared: false,
    claim: (options) =>
      claimDirectory(directory, options, files).catch((error) => {
        throw toStoreError(error, `open the store in ${directory}`);
      }),
    async manageKeys(task) {
      const id = await storeId();
      try {
        return await task(new KeyFiles(directory, { clock, files }), async () => id);
      } finally {
        // The directory may have been moved. Then, the task may have seen no keys, or those of another store.
        await storeId(id);
      }
    },
    check: async () => (await read()).report,
    read: async (task, signal) => task(await read(signal)),
    write: (contents, verify, signal) =>
      writeContents(directory, contents, verify, abortable(files, signal)).catch(
        failWith(`write a store to ${directory}`, signal),
      ),
    migrate: async () => undefined,
    pendingSql: async () => undefined,
  };
}

/** Locks the directory if it contains a store. A new store is locked when it is opened. */
async function claimDirectory(
  directory: string,
  options: BackendOptions,
  files: FileSystem,
): Promise<StoreClaim> {
  const isStore = hasJournal(directory, await namesIn(directory, files));
  const lock = isStore
    ? // On a full or read-only disk, `open` reads the store without the lock.
      await acquireDirectoryLock(directory).catch((error) => void rethrowUnlessUnwritable(error))
    : undefined;
  return {
    open: (url) => openJournalBackend(directory, options, files, { lock, url }),
    release: async () => lock?.release(),
  };
}

const namesIn = (directory: string, files: FileSystem): Promise<string[]> =>
  files.readdir(directory).catch((error) => {
    if (isMissing(error)) return [];
    throw error;
  });

/**
 * Opens the store in a directory for a server. Requests are counted in memory, and bans are kept in a file.
 *
 * @param lock the lock of the directory, if this process has locked it
 */
async function openJournalBackend(
  directory: string,
  options: BackendOptions,
  files: FileSystem,
  { lock, url }: { lock: DirectoryLock | undefined; url: string | undefined },
): Promise<Backend> {
  const { clock, sleep, signal, onWarning, onFailure, onSync = () => {} } = options;
  const timedFiles = timedSyncs(files, clock.elapsed, onSync);
  const store = await openJournalStore(
    { directory, clock, files: timedFiles, url, signal, onWarning, onFailure },
    lock,
  );
  try {
    const keyFiles = new KeyFiles(directory, { clock, files, onWarning });
    const readKeys = async () => {
      const known = await keyFiles.read();
      // If the directory was moved, these keys may belong to another store, and the server would miss revocations.
      await store.requireInPlace();
      return known;
    };
    const keys = new KeyCache(readKeys, clock, sleep);
    // If the keys cannot be read, the first request that needs them fails.
    await keys.load().catch(() => {});
    let isWarned = false;
    const bans = createBanTracker(options.bans, clock, await loadBans(directory), async (all) => {
      // The store locks the directory as soon as the disk accepts writes.
      if (!store.isLocked) await store.checkWritable().catch(() => {});
      if (!store.isLocked) return false;
      try {
        await store.requireInPlace();
        await saveBans(directory, all);
        isWarned = false;
        return true;
      } catch (error) {
        if (!isWarned) onWarning((error as Error).message);
        isWarned = true;
        return false;
      }
    });
    await bans.saved();
    const limiter = createMemoryLimiter(clock, bans);
    return {
      store,
      keys,
      limiter,
      async reset(seed) {
        await store.reset(seed);
        limiter.clear();
        await bans.clear();
      },
      banCounts: async () => bans.count(),
      async close() {
        await bans.saved();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}
