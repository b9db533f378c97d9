import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Clock, SteadyClock } from '../../contract/clock.ts';
import { INT64_MAX } from '../../contract/json.ts';
import { petJson } from '../../contract/schemas.ts';
import { AppendFile, FileChangedError, NotAppendedError } from '../../system/append-file.ts';
import {
  errnoOf,
  type FileSystem,
  isUnwritable,
  readParts,
  replaceFile,
  withFile,
} from '../../system/file-system.ts';
import {
  noIdsLeftError,
  type StoreError,
  StoreFailedError,
  StoreUnwritableError,
  toStoreError,
} from '../errors.ts';
import { type CreateRequest, type Fingerprint, formatTornEnd, type PetJson, type TornEnd } from '../store.ts';
import { BatchSize, bytesInRecord, encodeBatch, encodeLastId, type PetToWrite } from './format.ts';
import { backupNamePrefix, type Journal } from './read-journal.ts';

export type WriteSettings = {
  files: FileSystem;
  clock: SteadyClock;
  /** Receives messages for the user about problems that the store has handled itself. */
  onWarning: (message: string) => void;
  /** Called once, if another program changed the journal, or seeding failed. Reading and writing then fail. */
  onFailure: (error: StoreFailedError) => void;
  /** Called after each sync of the journal with its duration in milliseconds, also if the sync has failed. */
  onSync: (milliseconds: number) => void;
};

/** An animal to be written. `id` and `text` are set when its batch is written. `rest` is its JSON text after the id. */
type NewEntry = PetToWrite & { rest: string };

/** Animals that are written in one record and synced together. */
class Batch {
  readonly entries: NewEntry[] = [];
  readonly size = new BatchSize();
  resolve: () => void = () => {};
  reject: (error: unknown) => void = () => {};
  readonly written = new Promise<void>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
}

/**
 * Appends animals to a journal. After they are on the disk, adds them to the journal in memory. Animals that arrive
 * during the sync of a batch form the next batch (group commit).
 */
export class JournalWriter {
  #journal: Journal;
  #settings: WriteSettings;
  #status: WriteStatus;
  #file: AppendFile | undefined;
  #backup: string | undefined;
  #isOpen = false;
  #queue: Batch[] = [];
  #running: Promise<void> | undefined;
  /** The number of animals that are queued or being written. */
  #waiting = 0n;

  /** Reports the result of each write to `status`. A failed write also rejects the animals in later batches. */
  constructor(journal: Journal, settings: WriteSettings, status: WriteStatus) {
    this.#journal = journal;
    this.#settings = settings;
    this.#status = status;
  }

  /** Whether animals can be added. If so, every record that was read is on the disk. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Whether an animal is queued or being written. */
  get isBusy(): boolean {
    return this.#waiting > 0n;
  }

  /**
   * Makes the end of the journal durable, after moving a torn end to a backup. Only a process that has locked the
   * directory may call this. If it fails because the disk refuses writes for now, it can be called again.
   */
  async open(): Promise<void> {
    const journal = this.#journal;
    const { files, clock, onWarning, onSync } = this.#settings;
    const { path, tornEnd, lastLine } = journal;
    const end = tornEnd?.start ?? journal.file.size;
    const measureSync = (sync: () => Promise<void>) => {
      const started = clock.elapsed();
      return sync().finally(() => onSync(clock.elapsed() - started));
    };
    this.#file ??= await AppendFile.open(files, path, { expected: journal.file, end, measureSync });
    if (tornEnd) this.#backup ??= await saveTornEnd(files, path, tornEnd);
    // Write the last line again. It is the only one that may be missing on the disk: after a failed sync, the system
    // can consider pages clean that were never written.
    await this.#file.append(
      Buffer.from(`${lastLine.bytes.toString('latin1').trimEnd()}\n`, 'latin1'),
      lastLine.start,
    );
    const lastId = journal.minNextId - 1n;
    if (lastId > journal.lastId) await this.#append(encodeLastId(journal.seq + 1, now(clock), lastId));
    this.#isOpen = true;
    if (tornEnd)
      onWarning(
        `${formatTornEnd(dirname(path), tornEnd)}; these bytes were moved to ${this.#backup}, where you can look for animals that are missing`,
      );
  }

  /** Returns the text of the new animal when it is on the disk. @throws StoreUnwritableError, or another StoreError */
  async add({ name, categoryId, status }: CreateRequest['pet'], fingerprint?: Fingerprint): Promise<PetJson> {
    const { nextId, keys } = this.#journal;
    if (nextId + this.#waiting > INT64_MAX) throw noIdsLeftError();
    if (fingerprint && !keys.hasRoom(this.#settings.clock.now())) {
      throw new StoreUnwritableError(
        'there are too many idempotency keys',
        'try again tomorrow, or without an idempotency key',
      );
    }
    // The id is assigned when the batch is encoded. A failed write uses no id, so nothing needs to be undone.
    const rest = petJson({ id: 0n, name, categoryId, status }).slice('{"id":0'.length);
    const bytes = bytesInRecord(rest, fingerprint !== undefined);
    const entry = { id: 0n, status, text: '', fingerprint, rest };
    let batch = this.#queue.at(-1);
    if (!batch?.size.add(bytes)) {
      batch = new Batch();
      batch.size.add(bytes);
      this.#queue.push(batch);
    }
    batch.entries.push(entry);
    if (fingerprint) keys.reserve(fingerprint);
    this.#waiting++;
    this.#running ??= this.#run();
    await batch.written;
    return entry.text;
  }

  /**
   * Removes what a failed write left, then checks that the path of the journal still leads to the unchanged file.
   *
   * @throws NotAppendedError, or a system error
   */
  async check(): Promise<void> {
    await this.#file?.prepare();
  }

  /** Waits until each animal was written, or was rejected because a write failed. Then closes the file. */
  async close(): Promise<void> {
    await this.#running;
    // All acknowledged data is synced, so an error while closing loses nothing.
    await this.#file?.close().catch(() => {});
  }

  async #run(): Promise<void> {
    // Wait for requests that arrived at the same time as the first, so that they share its batch.
    await new Promise(setImmediate);
    let last: Batch | undefined;
    for (let batch = this.#queue.shift(); batch; batch = this.#queue.shift()) {
      const writing = this.#write(batch);
      // Respond to the requests of the previous batch while the disk syncs the current one.
      last?.resolve();
      last = batch;
      try {
        await writing;
        this.#waiting -= BigInt(batch.entries.length);
      } catch (error) {
        last = undefined;
        this.#reject([batch, ...this.#queue.splice(0)], error);
      }
    }
    last?.resolve();
    this.#running = undefined;
  }

  async #write({ entries }: Batch): Promise<void> {
    let id = this.#journal.nextId;
    for (const entry of entries) {
      entry.id = id++;
      entry.text = `{"id":${entry.id}${entry.rest}`;
    }
    await this.#append(encodeBatch(this.#journal.seq + 1, now(this.#settings.clock), entries));
    this.#status.succeeded();
  }

  /** Appends a record to the file. Then adds the record to the journal in memory, as `readJournal` does. */
  async #append({ line, ...record }: ReturnType<typeof encodeBatch>): Promise<void> {
    await (this.#file as AppendFile).append(line);
    this.#journal.add(record, record.at);
  }

  #reject(batches: readonly Batch[], error: unknown): void {
    const failure = this.#status.writeFailed(error);
    this.#waiting = 0n;
    for (const { entries, reject } of batches) {
      for (const { fingerprint } of entries) if (fingerprint) this.#journal.keys.release(fingerprint);
      reject(failure);
    }
  }
}

/** The current time in whole milliseconds since the epoch. */
const now = (clock: Clock): number => Math.trunc(clock.now());

/** Saves a torn end in a file, and returns its path. The name depends on the contents, so repetitions add no file. */
async function saveTornEnd(files: FileSystem, path: string, { start, bytes }: TornEnd): Promise<string> {
  return withFile(await files.open(path, 'read'), async (file) => {
    let crc = 0;
    for await (const part of readParts(file, start, start + bytes)) crc = crc32(part, crc);
    const backup = join(dirname(path), `${backupNamePrefix(start)}${crc.toString(16).padStart(8, '0')}`);
    await replaceFile(files, backup, readParts(file, start, start + bytes));
    return backup;
  });
}

/**
 * Remembers whether a store can read and write, and notifies the user once of each change. The methods that record an
 * error return a StoreError for the requests that fail because of it. The states of the store:
 *
 * - `writable`: it can read and write.
 * - `refused`: the disk refuses writes for now, or another server uses the store. Later writes are still tried.
 * - `failed`: it can only read until a restart, because a write failed and may have damaged the end of the journal.
 * - `stopped`: it cannot even read, because another program changed the journal, or seeding failed.
 */
export class WriteStatus {
  #settings: Pick<WriteSettings, 'onWarning' | 'onFailure'>;
  #path: string;
  #state: 'writable' | 'refused' | 'failed' | 'stopped' = 'writable';
  /** Set in the states `failed` and `stopped`. */
  #failure: StoreFailedError | undefined;

  constructor(path: string, settings: Pick<WriteSettings, 'onWarning' | 'onFailure'>) {
    this.#path = path;
    this.#settings = settings;
  }

  /** @throws StoreFailedError in the state `stopped` */
  throwIfStopped(): void {
    if (this.#state === 'stopped') throw this.#failure;
  }

  /** @throws StoreFailedError in the states `failed` and `stopped` */
  throwIfFailed(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Records that the store cannot write for now. Returns the error for requests of which nothing was stored. */
  refused(error: unknown): StoreUnwritableError {
    const { message, hint } = toStoreError(error, `write ${this.#path}`);
    if (this.#state === 'writable') {
      this.#state = 'refused';
      this.#settings.onWarning(`${message}; the store is read-only until writing is possible again`);
    }
    return new StoreUnwritableError(message, hint, { cause: error });
  }

  /** Records a failed write. Returns a StoreUnwritableError only if nothing was stored. */
  writeFailed(error: unknown): StoreUnwritableError | StoreFailedError {
    const isNotStored = error instanceof NotAppendedError;
    const { message, hint } = this.#record(isNotStored ? error.cause : error);
    return new (isNotStored ? StoreUnwritableError : StoreFailedError)(message, hint, { cause: error });
  }

  #record(error: unknown): StoreError {
    if (this.#failure) return this.#failure;
    if (error instanceof FileChangedError) return this.stopped(error);
    if (isUnwritable(error)) return this.refused(error);
    const failure = this.#fail('failed', error);
    this.#settings.onWarning(`${failure.message}; the store is read-only until the server is restarted`);
    return failure;
  }

  /** Records why `JournalStore.checkWritable` failed. Most errors mean only that the store cannot write for now. */
  checkFailed(error: unknown): StoreUnwritableError | StoreFailedError {
    const isDefect =
      error instanceof NotAppendedError || error instanceof FileChangedError || errnoOf(error) === 'EIO';
    return isDefect ? this.writeFailed(error) : this.refused(error);
  }

  /** Records that memory and disk may differ, so the store cannot even be read any more. */
  stopped(error: unknown): StoreFailedError {
    if (this.#state === 'stopped') return this.#failure as StoreFailedError;
    const failure = this.#fail('stopped', error);
    this.#settings.onFailure(failure);
    return failure;
  }

  /** Converts an error of the check of the journal's file. If another program changed the file, stops the store. */
  fileCheckFailed(error: unknown): StoreFailedError {
    if (error instanceof FileChangedError) return this.stopped(error);
    const { message, hint } = toStoreError(error, `read ${this.#path}`);
    return new StoreFailedError(message, hint, { cause: error });
  }

  /** Records that the store can write. This ends only the state `refused`. */
  succeeded(): void {
    if (this.#state !== 'refused') return;
    this.#state = 'writable';
    this.#settings.onWarning(`${this.#path} can be written again`);
  }

  #fail(state: 'failed' | 'stopped', error: unknown): StoreFailedError {
    this.#state = state;
    const { message, hint } =
      error instanceof FileChangedError
        ? {
            message: error.message,
            hint: 'if that was a mistake, restore the journal first; then start the server again',
          }
        : toStoreError(error, `write ${this.#path}`);
    this.#failure = new StoreFailedError(message, hint, { cause: error });
    return this.#failure;
  }
}
