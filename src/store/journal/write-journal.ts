import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Clock, SteadyClock } from '../../contract/clock.ts';
import { INT64_MAX } from '../../contract/json.ts';
import { AppendFile } from '../../system/append-file.ts';
import { type FileSystem, readParts, replaceFile, withFile } from '../../system/file-system.ts';
import { textAfterId, textWithId } from '../animal-text.ts';
import { noIdsLeftError, StoreUnwritableError } from '../errors.ts';
import type { CreateRequest, Fingerprint, PetJson, TornEnd } from '../store.ts';
import { BatchSize, bytesInRecord, encodeBatch, encodeLastId, type PetToWrite } from './format.ts';
import { backupNamePrefix, type Journal } from './read-journal.ts';

export type WriterSettings = {
  files: FileSystem;
  clock: SteadyClock;
  /** Receives messages for the user about problems that the store has handled itself. */
  onWarning: (message: string) => void;
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

/** An append needs about this much free space at most: a record, whose animal comes from a body of 64 KiB. */
const PROBE_BYTES = 2 ** 17;

/**
 * Appends animals to a journal. After they are on the disk, adds them to the journal in memory. Animals that arrive
 * during the sync of a batch form the next batch (group commit).
 *
 * All methods throw what `AppendFile` throws. After an error other than NotAppendedError, only `close` may be called.
 */
export class JournalWriter {
  #journal: Journal;
  #settings: WriterSettings;
  #file: AppendFile | undefined;
  #isReady = false;
  #queue: Batch[] = [];
  #running: Promise<void> | undefined;
  /** The number of animals that are queued or being written. */
  #waiting = 0n;

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
    return this.#waiting > 0n;
  }

  /**
   * Makes what was read durable, and moves a torn end to a backup. Only a process that has locked the directory may call
   * this. After a NotAppendedError, or a system error for which `isUnwritable` is true, it can be called again.
   */
  async prepare(): Promise<void> {
    const { files, clock, onWarning, onSync } = this.#settings;
    const { path, file, tornEnd, lastLine, seq, lastId, minNextId } = this.#journal;
    const backup = tornEnd && (await saveTornEnd(files, path, tornEnd));
    const measureSync = (sync: () => Promise<void>) => {
      const started = clock.elapsed();
      return sync().finally(() => onSync(clock.elapsed() - started));
    };
    const end = lastLine.start + lastLine.bytes.length;
    this.#file ??= await AppendFile.open(files, path, { expected: file, end, measureSync });
    const newline = lastLine.bytes.at(-1) === NEWLINE ? '' : '\n';
    const reserved = minNextId - 1n;
    const reservation = reserved > lastId ? encodeLastId(seq + 1, now(clock), reserved) : undefined;
    // The last line was read, but may not be on the disk: after a failed sync, the system can consider pages clean that
    // were never written. Earlier lines were synced before it was written.
    await this.#file.append(
      Buffer.concat([lastLine.bytes, Buffer.from(newline), reservation?.line ?? EMPTY]),
      lastLine.start,
    );
    if (reservation) this.#journal.add(reservation, clock.elapsed(), clock.elapsed());
    this.#isReady = true;
    if (tornEnd) {
      onWarning(
        `${path} did not end with a valid record, because a write was interrupted or another program changed the file; ` +
          `its bytes ${end} to ${file.size} were moved to ${backup}; if another program changed the file, they may contain animals that were acknowledged`,
      );
    }
  }

  /** Returns the text of the new animal when it is on the disk. Also throws StoreUnwritableError, or another StoreError. */
  async add(pet: CreateRequest['pet'], fingerprint?: Fingerprint): Promise<PetJson> {
    const { nextId, keys } = this.#journal;
    if (nextId + this.#waiting > INT64_MAX) throw noIdsLeftError();
    if (fingerprint && !keys.hasRoom(this.#settings.clock.elapsed())) {
      throw new StoreUnwritableError(
        'there are too many idempotency keys',
        'try again tomorrow, or without an idempotency key',
      );
    }
    // The id is assigned when the batch is encoded. A failed write uses no id, so nothing needs to be undone.
    const entry = { id: 0n, status: pet.status, text: '', fingerprint, rest: textAfterId(pet) };
    const bytes = bytesInRecord(entry.rest, fingerprint !== undefined);
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
      entry.text = textWithId(entry.id, entry.rest);
    }
    const { clock } = this.#settings;
    const { line, ...record } = encodeBatch(this.#journal.seq + 1, now(clock), entries);
    await this.#file?.append(line);
    this.#journal.add(record, clock.elapsed(), clock.elapsed());
  }

  /** Rejects all animals of the batches. The later ones were not written, but would not be written either. */
  #reject(batches: readonly Batch[], error: unknown): void {
    this.#waiting = 0n;
    for (const { entries, reject } of batches) {
      for (const { fingerprint } of entries) if (fingerprint) this.#journal.keys.release(fingerprint);
      reject(error);
    }
  }
}

const NEWLINE = 0x0a;
const EMPTY = Buffer.alloc(0);

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
