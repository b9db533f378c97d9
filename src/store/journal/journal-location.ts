import * as fs from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import { acquireDirectoryLock, type DirectoryLock } from '../../system/directory-lock.ts';
import {
  abortable,
  createFile,
  errnoOf,
  type FileSystem,
  fsyncAncestors,
  isMissing,
  makeDirectory,
  type OpenFile,
  realFileSystem,
  timedSyncs,
  withFile,
  writeAndSync,
} from '../../system/file-system.ts';
import {
  type Backend,
  type BackendOptions,
  MAX_READ_ANIMALS,
  MAX_READ_BYTES,
  type StoreClaim,
  type StoreContents,
  type StoredAnimal,
  type StoreLocation,
} from '../backend.ts';
import { StoreError, StoreMissingError, StoreUnavailableError, toStoreError } from '../errors.ts';
import { KeyCache } from '../keys/key-cache.ts';
import { KeyManager, requireKeys } from '../keys/keys.ts';
import { createMemoryLimiter } from '../limits/limiter.ts';
import { encodeJournal, JOURNAL, JOURNAL_OF_COPY } from './format.ts';
import {
  hasJournal,
  incompleteCopyError,
  openJournalStore,
  rethrowUnlessUnwritable,
} from './journal-store.ts';
import { BANS, encodeBans, encodeKey, KeyFiles, loadBans, saveBans } from './key-files.ts';
import { type Journal, readJournal, readJournalHeader } from './read-journal.ts';

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
      throw toStoreError(error, action);
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

  return {
    place,
    isShared: false,
    claim: (options) =>
      claimDirectory(directory, options, files).catch((error) => {
        throw toStoreError(error, `open the store in ${directory}`);
      }),
    async manageKeys(task) {
      await requireJournal();
      const { id } = await readJournalHeader(directory, files).catch(
        failWith(`read the store in ${directory}`),
      );
      return task(new KeyManager(new KeyFiles(directory, files), clock), async () => id);
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
    const keyFiles = new KeyFiles(directory, files);
    let isReadable = true;
    const readKeys = async () => {
      const known = await keyFiles.read().catch(({ message, hint, cause }: StoreError) => {
        if (isReadable) onWarning(`${message}; ${hint}`);
        isReadable = false;
        throw new StoreUnavailableError(message, hint, { cause, outcome: 'not_done' });
      });
      isReadable = true;
      // If the directory was moved, these keys may belong to another store, and the server would miss revocations.
      await store.requireInPlace();
      return known;
    };
    const keys = new KeyCache(readKeys, { clock, sleep, onWarning });
    // If the keys cannot be read, the first request that needs them fails.
    await keys.load().catch(() => {});
    let isWarned = false;
    const limiter = createMemoryLimiter(clock, {
      rule: options.bans,
      stored: await loadBans(directory),
      async save(bans) {
        // The store locks the directory as soon as the disk accepts writes.
        if (!store.isLocked) await store.checkWritable().catch(() => {});
        if (!store.isLocked) return false;
        try {
          await store.requireInPlace();
          await saveBans(directory, bans);
          isWarned = false;
          return true;
        } catch (error) {
          if (!isWarned) onWarning((error as Error).message);
          isWarned = true;
          return false;
        }
      },
    });
    await limiter.saved();
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
        await limiter.saved();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** The maximum number of times that the journal is read, if a server may be writing its last line. */
const ATTEMPTS = 3;

/**
 * Reads and verifies everything in the store of a directory, also while a server uses it. A torn end is left out.
 *
 * @param readAt the time by which idempotency keys expire, in milliseconds since 1970
 * @param name the name of the journal's file
 */
async function readContents(
  directory: string,
  files: FileSystem,
  readAt: number,
  name = JOURNAL,
): Promise<StoreContents> {
  const settings = { directory, files, clock: { now: () => readAt }, name };
  let journal = await readJournal(settings);
  // A server may just have been writing the last line.
  for (let attempt = 1; attempt < ATTEMPTS && journal.tornEnd; attempt++)
    journal = await readJournal(settings);
  const { header, pets, orders, seq, lastId, nextId, tornEnd, path, file } = journal;
  const keys = requireKeys(await new KeyFiles(directory, files).read());
  const { id, secret, created } = header;
  return {
    report: {
      id,
      animals: pets.size,
      orders: orders.length,
      keys: keys.length,
      lastId: lastId === Number.NEGATIVE_INFINITY ? undefined : BigInt(lastId),
      sequence: seq,
      tornEnd,
    },
    secret,
    created,
    nextId,
    orders,
    keys,
    bans: await loadBans(directory),
    readAt,
    async *animals() {
      yield* readAnimals(journal, readAt);
      // A server that could not sync the last record may have removed it.
      const { size } = await files.stat(path);
      if (size < file.size) throw new StoreError(`${path} has become shorter`, 'try again');
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
    if (animals.length < MAX_READ_ANIMALS && length < MAX_READ_BYTES) continue;
    yield animals;
    animals = [];
    length = 0;
  }
  if (animals.length > 0) yield animals;
}

/**
 * Writes the contents of a store to `target`, which must be an empty directory or not exist. The journal gets its name
 * last, so the target is never an incomplete store. After an error, everything that was written is deleted.
 *
 * @param verify receives what was written, before it becomes a store. If it rejects, the target becomes as before
 */
async function writeContents(
  target: string,
  contents: StoreContents,
  verify: (written: StoreContents) => Promise<void>,
  files: FileSystem,
): Promise<void> {
  const missing = await missingDirectories(target);
  if (missing.length === 0) await requireEmpty(target);
  try {
    await makeDirectory(files, target);
    const file = await createJournal(target, files);
    try {
      await withFile(file, () => writeAndSync(file, journalOf(contents)));
      await writeKeys(target, contents, files);
      if (contents.bans.size > 0) await createFile(files, join(target, BANS), [encodeBans(contents.bans)]);
      await files.syncDirectory(target);
      await verify(await readContents(target, files, contents.readAt, JOURNAL_OF_COPY));
      await files.rename(join(target, JOURNAL_OF_COPY), join(target, JOURNAL));
      await fsyncAncestors(files, target);
    } catch (error) {
      await removeCopy(target).catch(() => {});
      throw error;
    }
  } catch (error) {
    for (const directory of missing) await fs.rmdir(directory).catch(() => {});
    throw error;
  }
}

function journalOf({ report, secret, created, ...contents }: StoreContents): AsyncIterable<Buffer> {
  const { orders, nextId, readAt } = contents;
  return encodeJournal(
    { id: report.id, secret, created },
    { orders, animals: contents.animals(), nextId },
    readAt,
  );
}

async function writeKeys(target: string, { keys }: StoreContents, files: FileSystem): Promise<void> {
  const keyFiles = new KeyFiles(target, files);
  await makeDirectory(files, keyFiles.path);
  for (const key of keys) await createFile(files, keyFiles.pathOf(key.name), [encodeKey(key)]);
  await files.syncDirectory(keyFiles.path);
}

/** The directory and its ancestors that do not exist, the directory first. */
async function missingDirectories(directory: string): Promise<string[]> {
  try {
    await fs.lstat(directory);
    return [];
  } catch (error) {
    if (!isMissing(error)) throw error;
    return [directory, ...(await missingDirectories(dirname(directory)))];
  }
}

/** @throws StoreError if the directory contains anything but `allowed`, or if there is no directory with this name */
async function requireEmpty(directory: string, allowed?: string): Promise<void> {
  const hint = 'copy to an empty directory, or to one that does not exist yet';
  const names = await fs.readdir(directory).catch((error) => {
    throw isMissing(error) || errnoOf(error) === 'ENOTDIR'
      ? new StoreError(`${directory} is not a directory`, hint)
      : error;
  });
  const others = names.filter((name) => name !== allowed);
  if (others.length === 0) return;
  if (others.includes(JOURNAL_OF_COPY) && !others.includes(JOURNAL)) throw incompleteCopyError(directory);
  throw new StoreError(`${directory} is not empty`, hint);
}

/** Creates the file that will be the journal. Only one process at a time can create it. */
async function createJournal(target: string, files: FileSystem): Promise<OpenFile> {
  const path = join(target, JOURNAL_OF_COPY);
  const file = await files.open(path, 'create').catch((error) => {
    throw errnoOf(error) === 'EEXIST' ? incompleteCopyError(target) : error;
  });
  try {
    // Another copy may have been completed since the directory was checked.
    await requireEmpty(target, JOURNAL_OF_COPY);
    // The keys must not be on the disk without this file. Otherwise, they would look like the keys of a new store.
    await files.syncDirectory(target);
    return file;
  } catch (error) {
    await file.close();
    await fs.unlink(path);
    throw error;
  }
}

/**
 * Deletes the copy. First renames the journal, so that the directory contains no store. Deletes this file last, because it
 * shows that the copy is incomplete.
 */
async function removeCopy(target: string): Promise<void> {
  const journal = join(target, JOURNAL_OF_COPY);
  await fs.rename(join(target, JOURNAL), journal).catch(() => {});
  await fs.rm(new KeyFiles(target).path, { recursive: true, force: true });
  await fs.rm(join(target, BANS), { force: true });
  await fs.rm(journal, { force: true });
}
