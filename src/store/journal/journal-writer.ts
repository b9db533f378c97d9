import type { Clock } from '../../contract/clock.ts';
import type { AppendFile } from '../../system/append-file.ts';
import { textRefOf } from '../index/pet-index.ts';
import type { Journal } from './load-journal.ts';
import { encodeBatch, type PetEntry } from './record-format.ts';
import type { WriteStatus } from './write-status.ts';

/** The maximum number of animals in a batch, and the approximate maximum of their bytes. */
export const MAX_BATCH = 1000;
const MAX_BATCH_BYTES = 2 ** 20;

/** An animal to be written. `bytes` is the animal's size in a record, as `recordBytes` calculates it. */
export type NewEntry = PetEntry & { bytes: number };

/** Animals that are written in one record and synced together. */
export class Batch {
  readonly entries: NewEntry[] = [];
  /** For each animal, the entry of its idempotency key in the idempotency index; undefined if the animal has no key. */
  readonly keys: (number | undefined)[] = [];
  resolve: () => void = () => {};
  reject: (error: unknown) => void = () => {};
  readonly written = new Promise<void>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
  #bytes = 0;

  hasRoomFor({ bytes }: NewEntry): boolean {
    const count = this.entries.length;
    return count === 0 || (count < MAX_BATCH && this.#bytes + bytes <= MAX_BATCH_BYTES);
  }

  add(entry: NewEntry, key?: number): void {
    this.entries.push(entry);
    this.keys.push(key);
    this.#bytes += entry.bytes;
  }
}

/**
 * Appends animals to a journal. After they are on the disk, adds them to the journal's contents in memory. Animals that
 * arrive during the sync of a batch form the next batch (group commit).
 */
export class JournalWriter {
  readonly file: AppendFile;
  #journal: Journal;
  #clock: Clock;
  #status: Pick<WriteStatus, 'writeFailed' | 'succeeded'>;
  #queue: Batch[] = [];
  #running: Promise<void> | undefined;

  /**
   * Reports the result of each write to `status`. After a failed write, all waiting animals are rejected with the error
   * that `writeFailed` returns.
   */
  constructor(
    journal: Journal,
    file: AppendFile,
    clock: Clock,
    status: Pick<WriteStatus, 'writeFailed' | 'succeeded'>,
  ) {
    this.#journal = journal;
    this.file = file;
    this.#clock = clock;
    this.#status = status;
  }

  /** Resolves when the animal is on the disk. Call with ascending ids from `nextId` of the journal. */
  add(entry: NewEntry): Promise<void> {
    const { fingerprint } = entry;
    // Reserve the key first: it may fail to allocate memory, which must not leave an empty batch in the queue.
    const key = fingerprint && this.#journal.contents.keys.reserve(fingerprint.words);
    let batch = this.#queue.at(-1);
    if (!batch?.hasRoomFor(entry)) {
      batch = new Batch();
      this.#queue.push(batch);
    }
    batch.add(entry, key);
    this.#running ??= this.#run();
    return batch.written;
  }

  /** Closes the file when no animal is waiting: each was written, or was rejected because a write failed. */
  async close(): Promise<void> {
    await this.#running;
    // All acknowledged data is synced, so an error while closing loses nothing.
    await this.file.close().catch(() => {});
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
      } catch (error) {
        last = undefined;
        const failure = this.#status.writeFailed(error);
        const failed = [batch, ...this.#queue.splice(0)];
        this.#release(failed);
        for (const { reject } of failed) reject(failure);
      }
    }
    last?.resolve();
    this.#running = undefined;
  }

  async #write({ entries, keys }: Batch): Promise<void> {
    const { contents } = this.#journal;
    const at = Math.trunc(this.#clock.now());
    const packed = encodeBatch(contents.seq + 1, at, entries);
    await this.file.append(packed.bytes);
    this.#status.succeeded();
    contents.seq++;
    const placement = contents.pets.append(packed);
    keys.forEach((key, i) => {
      if (key !== undefined) contents.keys.complete(key, textRefOf(packed, i, placement), at);
    });
  }

  /** Makes the ids and idempotency keys of animals that were not written available again. */
  #release(failed: readonly Batch[]): void {
    const firstId = failed[0]?.entries[0]?.id;
    if (firstId !== undefined) this.#journal.nextId = BigInt(firstId);
    const firstKey = failed.flatMap(({ keys }) => keys).find((key) => key !== undefined);
    if (firstKey !== undefined) this.#journal.contents.keys.release(firstKey);
  }
}
