import { join, resolve } from 'node:path';
import { systemClock } from '../../contract/clock.ts';
import { requireSameFile } from '../../system/append-file.ts';
import { acquireDirectoryLock, type DirectoryLock } from '../../system/directory-lock.ts';
import {
  errnoOf,
  fsyncAncestors,
  isTemporaryName,
  isUnwritable,
  LockError,
  makeDirectory,
  realFileSystem,
  removeFile,
  replaceFile,
  temporaryName,
  withFile,
  writeFully,
} from '../../system/file-system.ts';
import { StoreError, StoreFailedError, StoreUnavailableError, toStoreError } from '../errors.ts';
import {
  type CreateRequest,
  type CreateResult,
  encodeSeed,
  fingerprintOf,
  formatTornEnd,
  type OrderJson,
  type Page,
  type PageQuery,
  type PetJson,
  type Seed,
  type Store,
} from '../store.ts';
import { bytesInRecord, encodeHeader, encodeJournal, JOURNAL_FILE, newHeader } from './format.ts';
import { BANS_FILE } from './key-files.ts';
import { type Journal, readJournal } from './read-journal.ts';
import { JournalWriter, type WriteSettings, WriteStatus } from './write-journal.ts';

/** A new file of this size shows whether there is space for any single creation. */
const PROBE_BYTES = 2 ** 17;

/** After a check whether the journal can be written, later checks within this time get the same result. */
const CHECK_MS = 1_000;

type JournalSettings = WriteSettings & {
  directory: string;
  lock: (directory: string) => Promise<DirectoryLock>;
  /** The server's URL, which another server reports if it tries to lock the same directory. */
  url?: string | undefined;
};

export type JournalOptions = Partial<JournalSettings> & {
  directory: string;
  /** If aborted while the journal is being read, opening fails with its reason. */
  signal?: AbortSignal | undefined;
};

const defaults = {
  clock: systemClock,
  files: realFileSystem,
  lock: acquireDirectoryLock,
  onWarning: () => {},
  onFailure: () => {},
  onSync: () => {},
};

/**
 * Whether a directory that contains these names has a journal.
 *
 * @throws StoreError if only other files show that there was a journal. A new journal would issue the same ids again
 */
export function hasJournal(directory: string, names: readonly string[]): boolean {
  if (names.includes(JOURNAL_FILE)) return true;
  const traces = names.filter(
    (name) => name === 'keys' || name === BANS_FILE || name.startsWith('journal.torn-'),
  );
  if (traces.length === 0) return false;
  throw new StoreError(
    `${join(directory, JOURNAL_FILE)} is missing, but the directory contains other files of a store: ${traces.join(', ')}`,
    `restore ${JOURNAL_FILE} from a backup, or use another directory; if a copy to this directory was interrupted, delete the directory, then copy again`,
  );
}

/**
 * Opens the store in a directory, or creates one (docs/serve.md). On a full or read-only disk, the store can only be
 * read until writing is possible.
 *
 * @param claimed the lock of the directory, if this process has locked it. The store releases it
 * @throws StoreError, or the reason of the signal. After an error, nothing stays locked
 */
export async function openJournalStore(
  { signal, ...options }: JournalOptions,
  claimed?: DirectoryLock,
): Promise<JournalStore> {
  const directory = resolve(options.directory);
  const settings = { ...defaults, ...options, directory };
  const { files } = settings;
  let lock = claimed;
  try {
    await makeDirectory(files, directory);
    let refusal: unknown;
    lock ??= await settings.lock(directory).catch((error) => {
      refusal = rethrowUnlessUnwritable(error);
      return undefined;
    });
    if (!hasJournal(directory, await files.readdir(directory))) {
      // Without a journal, there is nothing to read.
      if (refusal !== undefined) throw refusal;
      await replaceFile(files, join(directory, JOURNAL_FILE), [
        encodeHeader(newHeader(settings.clock.now())),
      ]);
    }
    if (settings.url !== undefined) lock?.announce(settings.url);
    const journal = await readJournal({ ...settings, signal });
    const store = new JournalStore(settings, journal, lock);
    await store.startWriter(refusal).catch(async (error) => {
      await store.close();
      throw error;
    });
    return store;
  } catch (error) {
    await lock?.release();
    signal?.throwIfAborted();
    throw toStoreError(error, `open the store in ${directory}`);
  }
}

/** Returns the error if the disk refuses writes for now, because the store can still be read. Throws other errors. */
export function rethrowUnlessUnwritable(error: unknown): unknown {
  if (isUnwritable(error instanceof LockError ? error.cause : error)) return error;
  throw error;
}

/** Keeps a store in memory, and in a journal on the disk. */
export class JournalStore implements Store {
  readonly id: string;
  #settings: JournalSettings;
  #journal: Journal;
  #writer: JournalWriter;
  #status: WriteStatus;
  /** Undefined while the disk refuses the lock. Then, another server may write to the journal. */
  #lock: DirectoryLock | undefined;
  #check: { at: number; isRunning: boolean; result: Promise<void> } | undefined;
  #seeding: Promise<unknown> | undefined;
  #closed: Promise<void> | undefined;

  constructor(settings: JournalSettings, journal: Journal, lock: DirectoryLock | undefined) {
    this.id = journal.header.id;
    this.#settings = settings;
    this.#journal = journal;
    this.#lock = lock;
    this.#status = new WriteStatus(journal.path, settings);
    this.#writer = new JournalWriter(journal, settings, this.#status);
  }

  /** Whether this process may write to files in the directory. */
  get isLocked(): boolean {
    return this.#lock !== undefined;
  }

  /** Prepares for writing, unless the disk refuses that for now. `refusal` is the error if it has refused the lock. */
  async startWriter(refusal?: unknown): Promise<void> {
    try {
      if (refusal !== undefined) throw refusal;
      await this.#openWriter();
    } catch (error) {
      this.#status.refused(rethrowUnlessUnwritable(error));
      const { directory, onWarning } = this.#settings;
      const { tornEnd } = this.#journal;
      if (tornEnd) onWarning(`${formatTornEnd(directory, tornEnd)}; the server does not use these bytes`);
      if (this.#journal.seq > 0) {
        onWarning(
          `the last record of ${this.#journal.path} may not be on the disk yet; ` +
            'pets serve writes it again as soon as the disk accepts writes',
        );
      }
    }
  }

  async add({ pet, idempotency }: CreateRequest): Promise<CreateResult> {
    while (true) {
      const { header, keys, pets, petsBeforeLast } = await this.#read();
      if (this.#seeding) {
        await this.#seeding;
        continue;
      }
      const fingerprint = idempotency && fingerprintOf(idempotency, header.secret);
      const known = fingerprint && keys.find(fingerprint, this.#settings.clock.now());
      if (typeof known === 'string') return { kind: known };
      // Until the journal is opened for writing, its last record may not be on the disk.
      const isDurable = this.#writer.isOpen || (known !== undefined && known < petsBeforeLast);
      if (known !== undefined && isDurable) return { kind: 'replayed', pet: pets.textAt(known) };
      this.#status.throwIfFailed();
      if (this.#writer.isOpen) return { kind: 'added', pet: await this.#writer.add(pet, fingerprint) };
      await this.checkWritable().catch((error: StoreError) => {
        throw known === undefined ? error : new StoreFailedError(error.message, error.hint, { cause: error });
      });
    }
  }

  list(query: PageQuery): Page | Promise<Page> {
    const journal = this.#read();
    return journal instanceof Promise
      ? journal.then(({ pets }) => pets.page(query))
      : journal.pets.page(query);
  }

  async get(id: bigint): Promise<PetJson | undefined> {
    return (await this.#read()).pets.get(id);
  }

  async orders(): Promise<readonly OrderJson[]> {
    return (await this.#read()).orders;
  }

  async size(): Promise<number> {
    return (await this.#read()).pets.size;
  }

  async seed(seed: Seed): Promise<boolean> {
    while (true) {
      const { seq, nextId } = await this.#read();
      if (this.#seeding) await this.#seeding;
      else if (seq > 0 || nextId > 1n || this.#writer.isBusy) return false;
      else if (!this.#writer.isOpen) await this.checkWritable();
      else return this.#replace(seed).then(() => true);
    }
  }

  /** Replaces all animals and orders with a seed, after the creations that have begun. Later ones wait. */
  async reset(seed: Seed): Promise<void> {
    while (true) {
      await this.checkWritable();
      // This fails if the store was closed during the check. The directory may then belong to another server.
      await this.#read();
      if (this.#seeding) await this.#seeding;
      else return this.#replace(seed);
    }
  }

  /**
   * Checks whether the journal can be written, and makes it writable again if that is possible now. Runs at most once
   * in `CHECK_MS`.
   *
   * @throws StoreUnwritableError, StoreFailedError, or StoreError if the store is closed
   */
  async checkWritable(): Promise<void> {
    // While the journal is replaced, a check would find that the old one was deleted, and stop the server.
    while (this.#seeding) await this.#seeding;
    await this.#read();
    this.#status.throwIfFailed();
    const now = this.#settings.clock.now();
    if (!this.#check?.isRunning && Math.abs(now - (this.#check?.at ?? 0)) >= CHECK_MS) {
      const check = { at: now, isRunning: true, result: this.#tryToWrite() };
      this.#check = check;
      await check.result.finally(() => {
        check.isRunning = false;
      });
    }
    await this.#check?.result;
    // A write can have failed during the check.
    this.#status.throwIfFailed();
  }

  /**
   * Checks that the path of the journal leads to the file of this store. If it leads to another one, calls `onFailure`.
   *
   * @throws StoreUnavailableError if the path leads to another file, or if that cannot be checked
   */
  async requireInPlace(): Promise<void> {
    while (this.#seeding) await this.#seeding;
    const { dev, ino } = this.#journal.file;
    await this.#requireFile({ dev, ino }).catch(({ message, hint, cause }: StoreError) => {
      throw new StoreUnavailableError(message, hint, { outcome: 'not_done', cause });
    });
  }

  /** Completes pending writes, closes the file, and releases the lock. */
  close(): Promise<void> {
    this.#closed ??= Promise.resolve(this.#seeding).then(async () => {
      await this.#check?.result.catch(() => {});
      await this.#writer.close();
      await this.#lock?.release();
    });
    return this.#closed;
  }

  /**
   * Returns the journal, or a promise of it if its file must be checked first.
   *
   * @throws StoreFailedError in the state `stopped`, or if the check fails; StoreError if the store is closed
   */
  #read(): Journal | Promise<Journal> {
    this.#status.throwIfStopped();
    if (this.#closed) throw new StoreError('the store is closed', 'open it again');
    // Without the lock, another server may change the journal, so this one must not return old data.
    if (!this.#lock) return this.#requireFile(this.#journal.file).then(() => this.#journal);
    return this.#journal;
  }

  async #requireFile(expected: Parameters<typeof requireSameFile>[2]): Promise<void> {
    await requireSameFile(this.#settings.files, this.#journal.path, expected).catch((error) => {
      throw this.#status.fileCheckFailed(error);
    });
  }

  async #tryToWrite(): Promise<void> {
    try {
      if (!this.#writer.isOpen) await this.#openWriter();
      else if (!(await this.#probe())) return;
    } catch (error) {
      this.#status.throwIfStopped();
      throw this.#status.checkFailed(error);
    }
    this.#status.succeeded();
  }

  /** Locks the directory, deletes temporary files of processes that were killed, and makes the journal durable. */
  async #openWriter(): Promise<void> {
    const { directory, files, lock, url } = this.#settings;
    if (!this.#lock) {
      this.#lock = await lock(directory);
      if (url !== undefined) this.#lock.announce(url);
    }
    for (const name of await files.readdir(directory)) {
      if (/^(journal|bans)[.]/.test(name) && isTemporaryName(name))
        await removeFile(files, join(directory, name));
    }
    await fsyncAncestors(files, directory);
    await this.#writer.open();
  }

  /**
   * Checks that the journal is unchanged and that there is space: writes a new file in the directory, and deletes it
   * again. Does not sync this file, so that frequent checks stay cheap. Returns false if this process cannot create
   * files. The journal, which is open already, may be writable anyway.
   */
  async #probe(): Promise<boolean> {
    const { files, directory } = this.#settings;
    await this.#writer.check();
    const path = join(directory, temporaryName(JOURNAL_FILE));
    try {
      await withFile(await files.open(path, 'create'), (probe) =>
        writeFully(probe, Buffer.alloc(PROBE_BYTES), 0),
      ).finally(() => removeFile(files, path));
      return true;
    } catch (error) {
      if (!['EMFILE', 'ENFILE', 'EACCES', 'EPERM'].includes(errnoOf(error) ?? '')) throw error;
      return false;
    }
  }

  #replace(seed: Seed): Promise<void> {
    const seeding = this.#replaceJournal(seed).finally(() => {
      this.#seeding = undefined;
    });
    this.#seeding = seeding.catch(() => {});
    return seeding;
  }

  async #replaceJournal(seed: Seed): Promise<void> {
    const { files, clock } = this.#settings;
    const { path, header } = this.#journal;
    const { animals, orders } = encodeSeed(seed);
    // `bytesInRecord` throws if a record is too long. Check this before anything is written.
    for (const { text } of animals) bytesInRecord(text);
    for (const order of orders) bytesInRecord(order);
    const contents = { orders, animals: [animals], nextId: 1n };
    const lines = encodeJournal(header, contents, Math.trunc(clock.now()));
    try {
      // Creations wait from now on. Those that have begun must be written before their file is replaced.
      await this.#writer.close();
      await replaceFile(files, path, lines);
      this.#journal = await readJournal(this.#settings);
      this.#writer = new JournalWriter(this.#journal, this.#settings, this.#status);
      await this.#writer.open();
    } catch (error) {
      throw this.#status.stopped(error);
    }
  }
}
