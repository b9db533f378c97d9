import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { INT64_MAX } from '../../contract/json.ts';
import {
  type AppendFile,
  FileChangedError,
  NotAppendedError,
  openAppendFile,
  requireSameFile,
  throwNotAppended,
} from '../../system/append-file.ts';
import type { Clock, SteadyClock } from '../../system/clock.ts';
import type { DirectoryLock } from '../../system/directory-lock.ts';
import {
  createFile,
  type FileSystem,
  fsyncAncestors,
  readRange,
  removeFile,
  replaceFile,
  temporaryName,
  withFile,
} from '../../system/file-system.ts';
import { textAfterId, textWithId } from '../animal-text.ts';
import {
  noIdsLeftError,
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
  type Fingerprint,
  fingerprintOf,
  type OrderJson,
  type Page,
  type PageQuery,
  type PetJson,
  type Seed,
  type Store,
  type TornEnd,
} from '../store.ts';
import {
  bytesInRecord,
  encodeBatch,
  encodeJournal,
  encodeLastId,
  fitsInRecord,
  JOURNAL_FILE,
  type PetToWrite,
} from './format.ts';
import type { Journal } from './journal.ts';
import { readJournal } from './read-journal.ts';

type WriterSettings = {
  files: FileSystem;
  clock: SteadyClock;
  /** Receives messages for the user about problems that the store has handled itself. */
  onWarning: (message: string) => void;
  /** Called after each write to the journal with the time until it was synced or has failed, in milliseconds. */
  onSync: (milliseconds: number) => void;
};

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
export const MARKER_FILE = 'store.txt';
const MARKER_TEXT = `The animals of this store are in ${JOURNAL_FILE}. If that file is missing, restore it from a backup.\n`;

/** Marks a directory as one that has a journal. */
export const writeMarker = (files: FileSystem, directory: string): Promise<void> =>
  replaceFile(files, join(directory, MARKER_FILE), [Buffer.from(MARKER_TEXT)]);

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

/** An animal to be written, without its id. `rest` is its JSON text after the id, `bytes` its size in a record. */
type QueuedAnimal = Pick<PetToWrite, 'status' | 'fingerprint'> & {
  rest: string;
  bytes: number;
  resolve(text: PetJson): void;
  reject(error: unknown): void;
};

/** Enough space for any animal, whose request has at most 64 KiB. Several animals together can need more. */
const PROBE_BYTES = 2 ** 17;

/**
 * Appends animals to a journal. After they are on the disk, adds them to the journal in memory. Animals that arrive
 * during the sync of a batch form the next batch (group commit).
 *
 * The methods throw what `AppendFile` throws. After an error other than NotAppendedError or a StoreError, only `close` may
 * be called.
 */
class JournalWriter {
  #journal: Journal;
  #settings: WriterSettings;
  #file: AppendFile | undefined;
  /** The path of the file with the torn end. */
  #backup: string | undefined;
  #isReady = false;
  #queue: QueuedAnimal[] = [];
  /** The number of animals that are being written. */
  #writingCount = 0;
  #running: Promise<void> | undefined;

  constructor(journal: Journal, settings: WriterSettings) {
    this.#journal = journal;
    this.#settings = settings;
  }

  /** Whether animals can be added. If so, every record that was read is on the disk. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Whether an animal is queued or being written. */
  get isBusy(): boolean {
    return this.#queue.length + this.#writingCount > 0;
  }

  /**
   * Makes what was read durable, and moves a torn end to a backup. Only a process that has locked the directory may call
   * this. After a NotAppendedError, it can be called again. It must not be called while it runs.
   */
  async prepare(): Promise<void> {
    const { files, clock, onWarning } = this.#settings;
    const { path, file, tornEnd, lastLine, seq, lastId, minNextId } = this.#journal;
    // The torn end may already be overwritten if this is not the first attempt.
    if (tornEnd) this.#backup ??= await saveTornEnd(files, path, tornEnd).catch(throwNotAppended);
    this.#file ??= await openAppendFile(files, path, file);
    const newline = lastLine.bytes.at(-1) === NEWLINE ? '' : '\n';
    const reserved = minNextId - 1n;
    const reservation = reserved > lastId ? encodeLastId(seq + 1, now(clock), reserved) : undefined;
    // The last line was read, but may not be on the disk: after a failed sync, the system can consider pages clean that
    // were never written. Earlier lines were synced before it was written. A torn end is removed only after the record
    // that keeps its ids from being issued again has overwritten its beginning.
    await this.#append(
      Buffer.concat([lastLine.bytes, Buffer.from(newline), reservation?.line ?? EMPTY]),
      lastLine.start,
    );
    if (reservation) this.#journal.add(reservation, clock.elapsed(), clock.elapsed());
    this.#isReady = true;
    if (tornEnd) {
      onWarning(
        `${path} did not end with a valid record, because a write was interrupted or another program changed the file; ` +
          `its bytes ${tornEnd.start} to ${file.size} were moved to ${this.#backup}; if another program changed the file, they may contain animals that were acknowledged, so compare the store with a backup`,
      );
    }
  }

  /**
   * Returns the text of the new animal when it is on the disk.
   *
   * @throws StoreUnwritableError if no id or no idempotency key is left, StoreError if the animal is too long
   */
  async add(pet: CreateRequest['pet'], fingerprint?: Fingerprint): Promise<PetJson> {
    const { nextId, keys } = this.#journal;
    if (nextId + BigInt(this.#queue.length + this.#writingCount) > INT64_MAX) throw noIdsLeftError();
    if (fingerprint && !keys.hasRoom(this.#settings.clock.elapsed())) {
      throw new StoreUnwritableError(
        'there are too many idempotency keys',
        'try again tomorrow, or without an idempotency key',
      );
    }
    const rest = textAfterId(pet);
    const bytes = bytesInRecord(rest, fingerprint !== undefined);
    if (fingerprint) keys.reserve(fingerprint);
    return new Promise((resolve, reject) => {
      this.#queue.push({ status: pet.status, fingerprint, rest, bytes, resolve, reject });
      this.#running ??= this.#writeQueue();
    });
  }

  /** Checks what a creation needs: that the file is unchanged, and that it can grow. */
  async probe(): Promise<void> {
    await this.#file?.probe(PROBE_BYTES);
  }

  /** Waits until each animal was written, or was rejected because a write failed. Then closes the file. */
  async close(): Promise<void> {
    await this.#running;
    // All acknowledged data is synced, so an error while closing loses nothing.
    await this.#file?.close().catch(() => {});
  }

  async #writeQueue(): Promise<void> {
    // Wait for requests that arrived at the same time as the first, so that they share its batch.
    await new Promise(setImmediate);
    let respond = () => {};
    while (this.#queue.length > 0) {
      const batch = this.#nextBatch();
      this.#writingCount = batch.length;
      const writing = this.#write(batch);
      // Respond to the requests of the previous batch while the disk syncs the current one.
      respond();
      respond = await writing.catch((error) => {
        // Reject the queue too, because its animals would very likely fail as well.
        for (const { fingerprint, reject } of [...batch, ...this.#queue.splice(0)]) {
          if (fingerprint) this.#journal.keys.release(fingerprint);
          reject(error);
        }
        return () => {};
      });
      this.#writingCount = 0;
    }
    this.#running = undefined;
    respond();
  }

  async #append(bytes: Uint8Array, start?: number): Promise<void> {
    const { clock, onSync } = this.#settings;
    if (!this.#file) throw new Error('the journal is not prepared for writing');
    const started = clock.elapsed();
    try {
      await this.#file.append(bytes, start);
    } finally {
      onSync(clock.elapsed() - started);
    }
  }

  /** Takes as many waiting animals as fit into one record. */
  #nextBatch(): QueuedAnimal[] {
    let [count, total] = [0, 0];
    for (const { bytes } of this.#queue) {
      if (!fitsInRecord(count, total, bytes)) break;
      count++;
      total += bytes;
    }
    return this.#queue.splice(0, count);
  }

  /** Writes and syncs a batch. Returns a function that responds to its requests. */
  async #write(batch: readonly QueuedAnimal[]): Promise<() => void> {
    const { nextId, seq } = this.#journal;
    // The ids are assigned only now. A failed write uses no id, so nothing needs to be undone.
    const animals = batch.map(({ status, fingerprint, rest }, i): PetToWrite => {
      const id = nextId + BigInt(i);
      return { id, status, text: textWithId(id, rest), fingerprint };
    });
    const { clock } = this.#settings;
    const { line, ...record } = encodeBatch(seq + 1, now(clock), animals);
    await this.#append(line);
    this.#journal.add(record, clock.elapsed(), clock.elapsed());
    return () => {
      for (const [i, { resolve }] of batch.entries()) resolve(animals[i]?.text ?? '');
    };
  }
}

const NEWLINE = 0x0a;
const EMPTY = Buffer.alloc(0);

/** The current time in whole milliseconds since the epoch. */
const now = (clock: Clock): number => Math.trunc(clock.now());

/** Saves a torn end in a file, and returns its path. The name depends on the contents, so repetitions add no file. */
async function saveTornEnd(files: FileSystem, path: string, { start, bytes }: TornEnd): Promise<string> {
  const torn = await withFile(await files.open(path, 'read'), (file) =>
    readRange(file, start, start + bytes),
  );
  const name = `journal.torn-${start}-${crc32(torn).toString(16).padStart(8, '0')}`;
  const backup = join(dirname(path), name);
  await replaceFile(files, backup, [torn]);
  return backup;
}
