import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { INT64_MAX } from '../../contract/json.ts';
import { petJsonAfterId } from '../../contract/schemas.ts';
import {
  type AppendFile,
  FileChangedError,
  NotAppendedError,
  openAppendFile,
  requireSameFile,
  throwNotAppended,
} from '../../system/append-file.ts';
import type { SteadyClock } from '../../system/clock.ts';
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
import { BatchQueue } from '../batch-queue.ts';
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
  fingerprintOf,
  type OrderJson,
  type Page,
  type PageQuery,
  type PetJson,
  type Seed,
  type Store,
  type TornEnd,
} from '../store.ts';
import { textWithId } from '../stored-text.ts';
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

export type JournalStoreOptions = {
  directory: string;
  files: FileSystem;
  clock: SteadyClock;
  /** Receives messages for the user about problems that the store has handled itself. */
  onWarning: (message: string) => void;
  /** Called after each append to the journal with the time until it was synced or has failed, in milliseconds. */
  onSync: (milliseconds: number) => void;
  /** Called once if the store stops, because a write failed, or another program changed the journal. */
  onFailure: (error: StoreFailedError) => void;
};

/** A file that shows that the directory had a journal, even if no other file of a store is there. */
export const MARKER_FILE = 'store.txt';
const MARKER_TEXT = `The animals of this store are in ${JOURNAL_FILE}. If that file is missing, restore it from a backup.\n`;

export const writeMarker = (files: FileSystem, directory: string): Promise<void> =>
  replaceFile(files, join(directory, MARKER_FILE), [Buffer.from(MARKER_TEXT)]);

/** An animal to be written, without its id. `rest` is its JSON text after the id, `bytes` about its size in a record. */
type NewAnimal = Pick<PetToWrite, 'status' | 'idempotency'> & { rest: string; bytes: number };

/** Enough space for any animal, whose request has at most 64 KiB. Several animals together can need more. */
const PROBE_BYTES = 2 ** 17;

const NEWLINE = 0x0a;

/**
 * Keeps a store in memory, and in a journal on the disk. Animals are added to memory when they are on the disk. Those that
 * arrive during the sync of a batch form the next batch (group commit).
 *
 * A write that the disk refuses for now (`isUnwritable`) changes nothing. After any other failure of a write, and if
 * another program has changed the journal, memory and disk may differ. So the store stops: all methods of `Store` except
 * `close` throw StoreFailedError, and `onFailure` is called.
 */
export class JournalStore implements Store {
  readonly id: string;
  #options: JournalStoreOptions;
  #journal: Journal;
  #lock: DirectoryLock;
  #file: AppendFile | undefined;
  #creations: BatchQueue<NewAnimal, PetJson>;
  /** Whether animals can be added. If so, every record that was read is on the disk. */
  #isReady = false;
  /** The path of the file to which the torn end was moved. */
  #backup: string | undefined;
  /** Whether the disk has refused a write, and none has succeeded since then. */
  #isRefused = false;
  /** Why the store has stopped. */
  #failure: StoreFailedError | undefined;
  /** Set while `#ensureWritable` runs. */
  #ensuring: Promise<void> | undefined;
  /** Set while a seed replaces the journal. Creations, checks and other seeds wait for the end. */
  #replacing: Promise<unknown> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: JournalStoreOptions, journal: Journal, lock: DirectoryLock) {
    this.id = journal.header.id;
    this.#options = options;
    this.#journal = journal;
    this.#lock = lock;
    this.#creations = new BatchQueue({
      run: (animals) => this.#run(() => this.#write(animals)),
      maxNextItems: countForRecord,
    });
  }

  /** Makes what was read durable. On a full disk, the store opens without that. @throws FileChangedError, or a system error */
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
    const now = this.#options.clock.elapsed();
    const fingerprint = idempotency && fingerprintOf(idempotency, header.secret);
    const earlier = fingerprint && keys.find(fingerprint, now);
    if (typeof earlier === 'string') return { kind: earlier };
    if (!this.#isReady) {
      try {
        await this.#ensureWritable();
      } catch (error) {
        // The animal was added, but may not be on the disk yet.
        if (earlier !== undefined && error instanceof StoreUnwritableError) return { kind: 'in_flight' };
        throw error;
      }
      return this.add(request);
    }
    if (earlier !== undefined) return { kind: 'replayed', pet: pets.textAt(earlier) };
    if (fingerprint && !keys.hasRoom(now)) {
      throw new StoreUnwritableError(
        'there are too many idempotency keys',
        'try again tomorrow, or without an idempotency key',
      );
    }
    const rest = petJsonAfterId(pet);
    const bytes = bytesInRecord(rest, fingerprint !== undefined);
    if (fingerprint) keys.reserve(fingerprint);
    return {
      kind: 'added',
      pet: await this.#creations.add({ status: pet.status, idempotency: fingerprint, rest, bytes }),
    };
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
    if (seq > 0 || nextId > 1n || this.#creations.isBusy) return false;
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
   * Does what could not be done at the start on a full disk. If nothing is left, checks whether a creation would succeed.
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
   * Checks that the path of the journal leads to the file of this store. If it does not, the store stops.
   *
   * @throws StoreUnavailableError if the path does not lead to this file, or if that cannot be checked
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
      await this.#creations.close();
      // All acknowledged data is synced, so an error while closing loses nothing.
      await this.#file?.close().catch(() => {});
      await this.#lock.release();
    });
    return this.#closed;
  }

  /** @throws StoreFailedError if the store has stopped, StoreError if it is closed */
  #requireOpen(): Journal {
    if (this.#failure) throw this.#failure;
    if (this.#closed) throw new StoreError('the store is closed', 'start the server again');
    return this.#journal;
  }

  /** Runs a write. An error stops the store, except a NotAppendedError or a StoreError. @throws StoreError */
  async #run<Result>(write: () => Promise<Result>): Promise<Result> {
    try {
      const result = await write();
      if (this.#isRefused && this.#isReady) {
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
    const refusal = this.#unwritableError(error);
    if (!this.#isRefused)
      this.#options.onWarning(`${refusal.message}; animals cannot be added until the disk accepts writes`);
    this.#isRefused = true;
    return refusal;
  }

  #unwritableError(error: NotAppendedError): StoreUnwritableError {
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
   * Makes sure that animals can be added: prepares the file if that was not done before, otherwise checks that the disk
   * has room. Concurrent calls share one run: a second `#prepare` would remove animals that were added after the first.
   */
  #ensureWritable(): Promise<void> {
    this.#ensuring ??= this.#run(async () => {
      if (!this.#isReady) return this.#prepare();
      // A small animal may fit although the check fails, so this does not count as a refused write.
      await this.#file?.probe(PROBE_BYTES).catch((error) => {
        throw error instanceof NotAppendedError ? this.#unwritableError(error) : error;
      });
    }).finally(() => {
      this.#ensuring = undefined;
    });
    return this.#ensuring;
  }

  /**
   * Makes the names of the journal and its marker durable, copies a torn end to a backup, makes durable what was read, and
   * removes the torn end. After a NotAppendedError, it can be called again.
   */
  async #prepare(): Promise<void> {
    const { directory, files, clock, onWarning } = this.#options;
    const { path, file, tornEnd, lastLine, seq, lastId, minNextId } = this.#journal;
    try {
      // The name of the journal must be on the disk before the marker, which says that there is a journal.
      await fsyncAncestors(files, directory);
      if (!(await files.readdir(directory)).includes(MARKER_FILE)) await writeMarker(files, directory);
      // The torn end may already be overwritten if this is not the first attempt.
      if (tornEnd) this.#backup ??= await saveTornEnd(files, path, tornEnd);
    } catch (error) {
      throwNotAppended(error);
    }
    this.#file ??= await openAppendFile(files, path, file);
    const newline = lastLine.bytes.at(-1) === NEWLINE ? '' : '\n';
    const reserved = minNextId - 1n;
    const reservation = reserved > lastId ? encodeLastId(seq + 1, this.#now(), reserved) : undefined;
    // The last line was read, but may not be on the disk: after a failed sync, the system can consider pages clean that
    // were never written. Earlier lines were synced before it was written. A torn end may contain ids that were issued:
    // before it is removed, a record that reserves these ids overwrites its beginning.
    const lines = [lastLine.bytes, Buffer.from(newline), reservation?.line ?? Buffer.alloc(0)];
    await this.#append(Buffer.concat(lines), lastLine.start);
    if (reservation) this.#journal.add(reservation, clock.elapsed(), clock.elapsed());
    this.#isReady = true;
    if (tornEnd) {
      onWarning(
        `${path} did not end with a valid record, because a write was interrupted or another program changed the file; ` +
          `its bytes ${tornEnd.start} to ${file.size} were moved to ${this.#backup}; if another program changed the file, they may contain animals that were acknowledged, so compare the store with a backup`,
      );
    }
  }

  /** Writes and syncs animals in one record, and returns their texts. */
  async #write(batch: readonly NewAnimal[]): Promise<PetJson[]> {
    const { clock } = this.#options;
    const { nextId, seq, keys } = this.#journal;
    try {
      if (this.#failure) throw this.#failure;
      if (nextId + BigInt(batch.length - 1) > INT64_MAX) throw noIdsLeftError();
      // The ids are assigned only now. A failed write uses no id, so nothing needs to be undone.
      const animals = batch.map(({ status, idempotency, rest }, i): PetToWrite => {
        const id = nextId + BigInt(i);
        return { id, status, text: textWithId(id, rest), idempotency };
      });
      const { line, ...record } = encodeBatch(seq + 1, this.#now(), animals);
      await this.#append(line);
      this.#journal.add(record, clock.elapsed(), clock.elapsed());
      return animals.map(({ text }) => text);
    } catch (error) {
      for (const { idempotency } of batch) if (idempotency) keys.release(idempotency);
      throw error;
    }
  }

  async #append(bytes: Uint8Array, start?: number): Promise<void> {
    const { clock, onSync } = this.#options;
    if (!this.#file) throw new Error('the journal is not open for writing');
    const started = clock.elapsed();
    try {
      await this.#file.append(bytes, start);
    } finally {
      onSync(clock.elapsed() - started);
    }
  }

  /** The current time in whole milliseconds since the epoch. */
  #now(): number {
    return Math.trunc(this.#options.clock.now());
  }

  #replace(seed: Seed): Promise<void> {
    const replacing = this.#run(() => this.#replaceJournal(seed)).finally(() => {
      this.#replacing = undefined;
    });
    this.#replacing = replacing.catch(() => {});
    return replacing;
  }

  async #replaceJournal(seed: Seed): Promise<void> {
    const { files, directory } = this.#options;
    const { path, header } = this.#journal;
    const { animals, orders } = encodeSeed(seed);
    const contents = { orders, animals: [animals], nextId: 1n };
    // Fails if another program has changed the old journal, which must not be replaced then.
    await this.#ensureWritable();
    const temporary = join(directory, temporaryName(JOURNAL_FILE));
    try {
      await createFile(files, temporary, encodeJournal(header, contents, this.#now()));
    } catch (error) {
      await removeFile(files, temporary).catch(() => {});
      throwNotAppended(error);
    }
    // Later creations wait (`#replacing`). Those that have begun must be written before their file is replaced.
    await this.#creations.close();
    await this.#file?.close().catch(() => {});
    try {
      await files.rename(temporary, path);
      await files.syncDirectory(directory);
      this.#journal = await readJournal(this.#options);
      this.#file = undefined;
      this.#isReady = false;
      await this.start();
    } catch (error) {
      throw this.#stop(error);
    }
  }
}

/** How many of these animals fit into one record. */
function countForRecord(animals: readonly NewAnimal[]): number {
  let [count, total] = [0, 0];
  for (const { bytes } of animals) {
    if (!fitsInRecord(count, total, bytes)) break;
    count++;
    total += bytes;
  }
  return count;
}

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
