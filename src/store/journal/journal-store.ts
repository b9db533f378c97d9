import { join } from 'node:path';
import {
  FileChangedError,
  NotAppendedError,
  requireSameFile,
  throwNotAppended,
} from '../../system/append-file.ts';
import type { DirectoryLock } from '../../system/directory-lock.ts';
import {
  createFile,
  type FileSystem,
  fsyncAncestors,
  isTemporaryName,
  makeDirectory,
  removeFile,
  replaceFile,
  temporaryName,
} from '../../system/file-system.ts';
import {
  StoreError,
  StoreFailedError,
  StoreUnavailableError,
  StoreUnwritableError,
  toStoreError,
} from '../errors.ts';
import {
  type CreateRequest,
  type CreateResult,
  encodeSeed,
  fingerprintOf,
  type OrderJson,
  type Page,
  type PageQuery,
  type PetJson,
  type Seed,
  type Store,
} from '../store.ts';
import { encodeHeader, encodeJournal, JOURNAL_FILE, newHeader } from './format.ts';
import type { Journal } from './journal.ts';
import { BANS_FILE } from './key-files.ts';
import { readJournal } from './read-journal.ts';
import { JournalWriter, type WriterSettings } from './write-journal.ts';

export type JournalOptions = WriterSettings & {
  directory: string;
  lock: (directory: string) => Promise<DirectoryLock>;
  /** The server's URL, which another server reports if it tries to lock the same directory. */
  url?: string | undefined;
  /** Called once if the store stops, because a write failed, or another program changed the journal. */
  onFailure: (error: StoreFailedError) => void;
  /** If aborted while the journal is being read, opening fails with its reason. */
  signal?: AbortSignal | undefined;
};

/** A file that shows that the directory had a journal, even if no other file of a store is there. */
const MARKER_FILE = 'store.txt';
const MARKER_TEXT = `The animals of this store are in ${JOURNAL_FILE}. If that file is missing, restore it from a backup.\n`;

/**
 * Whether a directory that contains these names has a journal.
 *
 * @throws StoreError if only other files show that there was a journal. A new journal would issue the same ids again
 */
export function hasJournal(directory: string, names: readonly string[]): boolean {
  if (names.includes(JOURNAL_FILE)) return true;
  const traces = names.filter(
    (name) =>
      ['keys', BANS_FILE, MARKER_FILE].includes(name) ||
      (name.startsWith('journal.') && !isTemporaryName(name)),
  );
  if (traces.length === 0) return false;
  throw new StoreError(
    `${join(directory, JOURNAL_FILE)} is missing, but the directory contains other files of a store: ${traces.join(', ')}`,
    `restore ${JOURNAL_FILE} from a backup, or use another directory; if a copy to this directory was interrupted, delete the directory, then copy again`,
  );
}

/** Marks a directory as one that has a journal. */
export const writeMarker = (files: FileSystem, directory: string): Promise<void> =>
  replaceFile(files, join(directory, MARKER_FILE), [Buffer.from(MARKER_TEXT)]);

/**
 * Locks a directory and opens its store, or creates one (docs/serve.md). On a full disk, the store can only be read until
 * there is space.
 *
 * @throws StoreError, or the reason of the signal. After an error, nothing stays locked
 */
export async function openJournalStore(options: JournalOptions): Promise<JournalStore> {
  const { directory, files, url, clock, signal } = options;
  let close = async () => {};
  try {
    await makeDirectory(files, directory);
    const lock = await options.lock(directory);
    close = () => lock.release();
    if (url !== undefined) lock.announce(url);
    const names = await files.readdir(directory);
    if (!hasJournal(directory, names)) {
      const header = encodeHeader(newHeader(clock.now()));
      await replaceFile(files, join(directory, JOURNAL_FILE), [header]);
    }
    for (const name of names) {
      // Left by a process that was killed.
      if (/^(journal|bans|store)[.]/.test(name) && isTemporaryName(name))
        await removeFile(files, join(directory, name));
    }
    const store = new JournalStore(options, await readJournal(options), lock);
    close = () => store.close();
    await store.start();
    return store;
  } catch (error) {
    await close();
    signal?.throwIfAborted();
    throw toStoreError(error, `open the store in ${directory}`);
  }
}

/**
 * Keeps a store in memory, and in a journal on the disk. The store is open until it is closed, or until a write fails:
 * only a write that the disk refuses for now (`isUnwritable`) changes nothing. After any other failure, memory and disk
 * may differ, so the store stops: all methods except `close` throw StoreFailedError, and `onFailure` is called.
 */
export class JournalStore implements Store {
  readonly id: string;
  #options: JournalOptions;
  #journal: Journal;
  #writer: JournalWriter;
  #lock: DirectoryLock;
  /** Whether the disk has refused the last write. */
  #isRefused = false;
  /** Why the store has stopped. */
  #failure: StoreFailedError | undefined;
  /** Set while `#ensureWritable` runs. */
  #ensuring: Promise<void> | undefined;
  /** Set while a seed replaces the journal. Creations, checks and other seeds wait for the end. */
  #replacing: Promise<unknown> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: JournalOptions, journal: Journal, lock: DirectoryLock) {
    this.id = journal.header.id;
    this.#options = options;
    this.#journal = journal;
    this.#lock = lock;
    this.#writer = new JournalWriter(journal, options);
  }

  /** Makes what was read durable. On a full disk, the store opens without that. @throws a system error, or StoreError */
  async start(): Promise<void> {
    await this.#prepare().catch((error) => {
      if (!(error instanceof NotAppendedError)) throw error;
      this.#refuse(error);
    });
  }

  async add(request: CreateRequest): Promise<CreateResult> {
    while (this.#replacing) await this.#replacing;
    const { pet, idempotency } = request;
    const { header, keys, pets } = this.#requireOpen();
    const fingerprint = idempotency && fingerprintOf(idempotency, header.secret);
    const known = fingerprint && keys.find(fingerprint, this.#options.clock.elapsed());
    if (typeof known === 'string') return { kind: known };
    if (!this.#writer.isReady) {
      try {
        await this.#ensureWritable();
      } catch (error) {
        // The animal was added, but may not be on the disk yet.
        if (known !== undefined && error instanceof StoreUnwritableError) return { kind: 'in_flight' };
        throw error;
      }
      return this.add(request);
    }
    if (known !== undefined) return { kind: 'replayed', pet: pets.textAt(known) };
    return { kind: 'added', pet: await this.#run(() => this.#writer.add(pet, fingerprint)) };
  }

  list(query: PageQuery): Page {
    return this.#requireOpen().pets.page(query);
  }

  async get(id: bigint): Promise<PetJson | undefined> {
    return this.#requireOpen().pets.get(id);
  }

  async orders(): Promise<readonly OrderJson[]> {
    return this.#requireOpen().orders;
  }

  async size(): Promise<number> {
    return this.#requireOpen().pets.size;
  }

  async seed(seed: Seed): Promise<boolean> {
    while (this.#replacing) await this.#replacing;
    const { seq, nextId } = this.#requireOpen();
    if (seq > 0 || nextId > 1n || this.#writer.isBusy) return false;
    await this.#replace(seed);
    return true;
  }

  /** Replaces all animals and orders with a seed, after the creations that have begun. Later ones wait. */
  async reset(seed: Seed): Promise<void> {
    while (this.#replacing) await this.#replacing;
    this.#requireOpen();
    await this.#replace(seed);
  }

  /**
   * Checks whether a creation would succeed, and first does what could not be done on a full disk.
   *
   * @throws StoreUnwritableError, StoreFailedError, or StoreError if the store is closed
   */
  async checkWritable(): Promise<void> {
    // While the journal is replaced, a check would find that the old one was deleted, and stop the store.
    while (this.#replacing) await this.#replacing;
    this.#requireOpen();
    await this.#ensureWritable();
  }

  /**
   * Checks that the path of the journal leads to the file of this store. If it leads to another one, the store stops.
   *
   * @throws StoreUnavailableError if the path leads to another file, or if that cannot be checked
   */
  async requireInPlace(): Promise<void> {
    while (this.#replacing) await this.#replacing;
    const { path, file } = this.#journal;
    await requireSameFile(this.#options.files, path, { dev: file.dev, ino: file.ino }).catch((error) => {
      if (error instanceof FileChangedError) this.#stop(error);
      const { message, hint } = toStoreError(error, `read ${path}`);
      throw new StoreUnavailableError(message, hint, { outcome: 'not_done', cause: error });
    });
  }

  /** Completes pending writes, closes the file, and releases the lock. */
  close(): Promise<void> {
    this.#closed ??= Promise.resolve(this.#replacing).then(async () => {
      await this.#ensuring?.catch(() => {});
      await this.#writer.close();
      await this.#lock.release();
    });
    return this.#closed;
  }

  /** @throws StoreFailedError if the store has stopped, StoreError if it is closed */
  #requireOpen(): Journal {
    if (this.#failure) throw this.#failure;
    if (this.#closed) throw new StoreError('the store is closed', 'open it again');
    return this.#journal;
  }

  /** Runs a write. If it fails, stops the store, unless the disk has refused the write. @throws StoreError */
  async #run<Result>(write: () => Promise<Result>): Promise<Result> {
    try {
      const result = await write();
      if (this.#isRefused && this.#writer.isReady) {
        this.#isRefused = false;
        this.#options.onWarning(`${this.#journal.path} can be written again`);
      }
      return result;
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw error instanceof NotAppendedError ? this.#refuse(error) : this.#stop(error);
    }
  }

  /** Records that the disk has refused a write, and returns the error for its request. */
  #refuse(error: NotAppendedError): StoreUnwritableError {
    const refusal = this.#unwritable(error);
    if (!this.#isRefused)
      this.#options.onWarning(`${refusal.message}; animals cannot be added until there is space`);
    this.#isRefused = true;
    return refusal;
  }

  #unwritable(error: NotAppendedError): StoreUnwritableError {
    const { message, hint } = toStoreError(error, `write ${this.#journal.path}`);
    return new StoreUnwritableError(message, hint, { cause: error });
  }

  /** Stops the store, and returns the error for all requests from now on. */
  #stop(error: unknown): StoreFailedError {
    if (this.#failure) return this.#failure;
    const { code, message, hint } =
      error instanceof FileChangedError
        ? new StoreError(error.message, 'restore the journal', { code: 'changed' })
        : toStoreError(error, `write ${this.#journal.path}`);
    this.#failure = new StoreFailedError(message, hint, { code, cause: error });
    this.#options.onFailure(this.#failure);
    return this.#failure;
  }

  /**
   * Checks what a creation needs, or first does what could not be done on a full disk. Concurrent calls share one run,
   * because two of them would remove what the other has just written.
   */
  #ensureWritable(): Promise<void> {
    this.#ensuring ??= this.#run(async () => {
      if (!this.#writer.isReady) return this.#prepare();
      // A small animal may fit although the check fails, so this does not count as a refused write.
      await this.#writer.probe().catch((error) => {
        throw error instanceof NotAppendedError ? this.#unwritable(error) : error;
      });
    }).finally(() => {
      this.#ensuring = undefined;
    });
    return this.#ensuring;
  }

  /** Makes the names of the journal and its marker durable, and then what was read. */
  async #prepare(): Promise<void> {
    const { directory, files } = this.#options;
    try {
      // The name of the journal must be on the disk before the marker, which says that there is a journal.
      await fsyncAncestors(files, directory);
      if (!(await files.readdir(directory)).includes(MARKER_FILE)) await writeMarker(files, directory);
    } catch (error) {
      throwNotAppended(error);
    }
    await this.#writer.prepare();
  }

  #replace(seed: Seed): Promise<void> {
    const replacing = this.#run(() => this.#replaceJournal(seed)).finally(() => {
      this.#replacing = undefined;
    });
    this.#replacing = replacing.catch(() => {});
    return replacing;
  }

  async #replaceJournal(seed: Seed): Promise<void> {
    const { files, clock, directory } = this.#options;
    const { path, header } = this.#journal;
    const { animals, orders } = encodeSeed(seed);
    const contents = { orders, animals: [animals], nextId: 1n };
    // Fails if another program has changed the old journal, which must not be replaced then.
    await this.#ensureWritable();
    const temporary = join(directory, temporaryName(JOURNAL_FILE));
    try {
      await createFile(files, temporary, encodeJournal(header, contents, Math.trunc(clock.now())));
    } catch (error) {
      await removeFile(files, temporary).catch(() => {});
      throwNotAppended(error);
    }
    // Later creations wait (`#replacing`). Those that have begun must be written before their file is replaced.
    await this.#writer.close();
    try {
      await files.rename(temporary, path);
      await files.syncDirectory(directory);
      // A signal that ends the start must not stop the store here, because its journal is already replaced.
      this.#journal = await readJournal({ ...this.#options, signal: undefined });
      this.#writer = new JournalWriter(this.#journal, this.#options);
      await this.start();
    } catch (error) {
      throw this.#stop(error);
    }
  }
}
