import * as fs from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import {
  createFile,
  errnoOf,
  type FileSystem,
  fsyncAncestors,
  isMissing,
  makeDirectory,
  realFileSystem,
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
import { StoreError, StoreMissingError, StoreUnavailableError, toStoreError } from '../errors.ts';
import { KeyCache } from '../keys/key-cache.ts';
import { KeyManager, requireValidKeys } from '../keys/keys.ts';
import { createMemoryLimiter } from '../limits/limiter.ts';
import type { StoreReport } from '../store.ts';
import { encodeJournal, JOURNAL_FILE } from './format.ts';
import { hasJournal, openJournalStore } from './journal-store.ts';
import { BANS_FILE, encodeBans, encodeKey, KeyFiles, loadBans, saveBans } from './key-files.ts';
import { type Journal, readJournal, readJournalHeader } from './read-journal.ts';

/** Returns the location of a store in a directory. Only a server, which calls `claim`, locks the directory. */
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

  /** @throws StoreMissingError, or another StoreError, for example if other files show that there was a store */
  async function requireJournal(): Promise<void> {
    const names = await namesIn(directory, files).catch(failWith(`read ${directory}`));
    if (!hasJournal(directory, names)) throw new StoreMissingError(directory);
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
    open: (options) =>
      openJournalBackend(directory, options, files).catch(
        failWith(`open the store in ${directory}`, options.signal),
      ),
    async manageKeys(task) {
      await requireJournal();
      const { id } = await readJournalHeader(directory, files).catch(
        failWith(`read the store in ${directory}`),
      );
      return task(new KeyManager(new KeyFiles(directory, files), clock), async () => id);
    },
    check: async () => (await read()).report,
    read: async (task, signal) => task(await read(signal)),
    write: (contents, accept, signal) =>
      writeContents(directory, contents, accept, files, signal).catch(
        failWith(`write a store to ${directory}`, signal),
      ),
  };
}

const namesIn = (directory: string, files: FileSystem): Promise<string[]> =>
  files.readdir(directory).catch((error) => {
    if (isMissing(error)) return [];
    throw error;
  });

/**
 * Opens or creates the store in a directory for a server. Requests are counted in memory, and bans are kept in a file.
 */
async function openJournalBackend(
  directory: string,
  options: OpenOptions,
  files: FileSystem,
): Promise<Backend> {
  const { clock, url, sleep, signal, onWarning, onFailure, onSync = () => {} } = options;
  const store = await openJournalStore({
    ...{ directory, clock, files, url, signal, onWarning, onFailure, onSync },
  });
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
    // If the keys cannot be read now, the server starts anyway, and requests that need them fail.
    await keys.load().catch(() => {});
    let isWarned = false;
    const limiter = createMemoryLimiter(clock, {
      rule: options.bans,
      stored: await loadBans(directory),
      async save(bans) {
        // Without the lock, another server may use the directory. `checkWritable` locks it if the disk allows that now.
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

/** A server may just be writing the last line. So a journal with a torn end is read up to this many times in all. */
const ATTEMPTS = 3;

/**
 * Reads and verifies everything in the store of a directory, also while a server uses it. A torn end is only reported.
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
  const settings = { directory, files, clock: { now: () => readAt }, name, signal };
  let journal = await readJournal(settings);
  for (let attempt = 1; attempt < ATTEMPTS && journal.tornEnd; attempt++)
    journal = await readJournal(settings);
  const { header, pets, orders, seq, lastId, nextId, tornEnd } = journal;
  const keys = requireValidKeys(await new KeyFiles(directory, files).read());
  const { id, secret, created } = header;
  return {
    report: {
      id,
      animals: pets.size,
      orders: orders.length,
      keys: keys.length,
      lastId: lastId > 0 ? BigInt(lastId) : undefined,
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
 * Writes the contents of a store to `target`, which must be an empty directory or not exist. The journal gets its name
 * last. Until then, no server creates a store in the directory, because a folder `keys` without a journal is an error
 * (`hasJournal`). After an error, everything that was written is deleted.
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
  const missing = await missingDirectories(target);
  if (missing.length === 0) await requireEmpty(target);
  const keyFiles = new KeyFiles(target, files);
  const temporary = temporaryName(JOURNAL_FILE);
  /** The files that were created, the last one first. */
  const written: string[] = [];
  const create = async (path: string, parts: Parameters<typeof createFile>[2]) => {
    written.unshift(path);
    await createFile(files, path, parts);
  };
  try {
    await makeDirectory(files, target);
    // Of several copies to the same directory, only one can create the directory of the keys.
    await files.mkdir(keyFiles.path).catch((error) => {
      throw errnoOf(error) === 'EEXIST' ? notEmptyError(target) : error;
    });
    try {
      for (const key of contents.keys) await create(keyFiles.pathOf(key.name), [encodeKey(key)]);
      await files.syncDirectory(keyFiles.path);
      if (contents.bans.size > 0) await create(join(target, BANS_FILE), [encodeBans(contents.bans)]);
      await create(join(target, temporary), journalOf(contents));
      await files.syncDirectory(target);
      accept((await readContents(target, files, contents.readAt, { name: temporary, signal })).report);
      // Unlike a rename, a link does not replace the journal of a server that has just created a store.
      await files.link(join(target, temporary), join(target, JOURNAL_FILE));
      written.unshift(join(target, JOURNAL_FILE));
      await files.unlink(join(target, temporary));
      await fsyncAncestors(files, target);
    } catch (error) {
      // Delete the journal first, so that no server opens it, and `keys` last, so that no server creates a new journal.
      for (const path of written) await fs.rm(path, { force: true }).catch(() => {});
      await fs.rmdir(keyFiles.path).catch(() => {});
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

/** The directories to create for this one: itself, then its missing ancestors. Empty if the directory exists. */
async function missingDirectories(directory: string): Promise<string[]> {
  try {
    await fs.lstat(directory);
    return [];
  } catch (error) {
    if (!isMissing(error)) throw error;
    return [directory, ...(await missingDirectories(dirname(directory)))];
  }
}

const EMPTY_HINT = 'copy to an empty directory, or to one that does not exist yet';

const notEmptyError = (directory: string) => new StoreError(`${directory} is not empty`, EMPTY_HINT);

/** @throws StoreError if the directory contains anything, or if it is not a directory; or a system error */
async function requireEmpty(directory: string): Promise<void> {
  const names = await fs.readdir(directory).catch((error) => {
    throw isMissing(error) || errnoOf(error) === 'ENOTDIR'
      ? new StoreError(`${directory} is not a directory`, EMPTY_HINT)
      : error;
  });
  if (names.length > 0) throw notEmptyError(directory);
}
