import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { INT64_MAX } from '../../contract/json.ts';
import { type AppendFile, openAppendFile, throwNotAppended } from '../../system/append-file.ts';
import type { Clock, SteadyClock } from '../../system/clock.ts';
import { type FileSystem, readRange, replaceFile, withFile } from '../../system/file-system.ts';
import { textAfterId, textWithId } from '../animal-text.ts';
import { noIdsLeftError, StoreUnwritableError } from '../errors.ts';
import type { CreateRequest, Fingerprint, PetJson, TornEnd } from '../store.ts';
import { bytesInRecord, encodeBatch, encodeLastId, fitsInRecord, type PetToWrite } from './format.ts';
import type { Journal } from './journal.ts';
import { backupNamePrefix } from './read-journal.ts';

export type WriterSettings = {
  files: FileSystem;
  clock: SteadyClock;
  /** Receives messages for the user about problems that the store has handled itself. */
  onWarning: (message: string) => void;
  /** Called after each write to the journal with the time until it was synced or has failed, in milliseconds. */
  onSync: (milliseconds: number) => void;
};

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
export class JournalWriter {
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
    // The torn end may already be removed if this is not the first attempt.
    if (tornEnd) this.#backup ??= await saveTornEnd(files, path, tornEnd).catch(throwNotAppended);
    const end = lastLine.start + lastLine.bytes.length;
    this.#file ??= await openAppendFile(files, path, { expected: file, end });
    const newline = lastLine.bytes.at(-1) === NEWLINE ? '' : '\n';
    const reserved = minNextId - 1n;
    const reservation = reserved > lastId ? encodeLastId(seq + 1, now(clock), reserved) : undefined;
    // The last line was read, but may not be on the disk: after a failed sync, the system can consider pages clean that
    // were never written. Earlier lines were synced before it was written.
    await this.#append(
      Buffer.concat([lastLine.bytes, Buffer.from(newline), reservation?.line ?? EMPTY]),
      lastLine.start,
    );
    if (reservation) this.#journal.add(reservation, clock.elapsed(), clock.elapsed());
    this.#isReady = true;
    if (tornEnd) {
      onWarning(
        `${path} did not end with a valid record, because a write was interrupted or another program changed the file; ` +
          `its bytes ${end} to ${file.size} were moved to ${this.#backup}; if another program changed the file, they may contain animals that were acknowledged, so compare the store with a backup`,
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
  const name = `${backupNamePrefix(start)}${crc32(torn).toString(16).padStart(8, '0')}`;
  const backup = join(dirname(path), name);
  await replaceFile(files, backup, [torn]);
  return backup;
}
