import type { Clock } from '../contract/clock.ts';
import type { PetStatus } from '../contract/schemas.ts';
import { type OpenFile, writeAll } from './files.ts';
import { type Entry, encodeBatch } from './journal-format.ts';
import type { Journal } from './journal-load.ts';

/** The most animals, and about the most bytes, of one batch: what one line holds and one sync covers. */
export const MAX_BATCH = 1000;
export const MAX_BATCH_BYTES = 2 ** 20;

/** An animal to be written; `bytes` is what its record takes. */
export type NewEntry = Entry & { id: bigint; status: PetStatus; bytes: number };

/** Animals that are written together; all who added one wait for the same promise. */
class Batch {
  readonly entries: NewEntry[] = [];
  /** For each animal the number of its idempotency key's entry. */
  readonly keys: (number | undefined)[] = [];
  resolve: () => void = () => {};
  reject: (error: unknown) => void = () => {};
  readonly written = new Promise<void>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
  #bytes = 0;

  hasRoomFor({ bytes }: NewEntry): boolean {
    return this.entries.length < MAX_BATCH && this.#bytes + bytes <= MAX_BATCH_BYTES;
  }

  add(entry: NewEntry, key: number | undefined): void {
    this.entries.push(entry);
    this.keys.push(key);
    this.#bytes += entry.bytes;
  }
}

/**
 * Appends animals to a journal, and shows them to readers once they are on the disk. All that come while a batch is
 * being synced make up the next one.
 */
export class JournalWriter {
  #journal: Journal;
  #clock: Clock;
  /** Makes of the error of a write the one that everybody is told. */
  #fail: (error: unknown) => Error;
  #queue: Batch[] = [];
  #running: Promise<void> | undefined;
  #failure: Error | undefined;

  constructor(journal: Journal, clock: Clock, fail: (error: unknown) => Error) {
    this.#journal = journal;
    this.#clock = clock;
    this.#fail = fail;
  }

  get isIdle(): boolean {
    return !this.#running;
  }

  /** Done once the animal is on the disk; ids come in ascending order. */
  add(entry: NewEntry): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    const { fingerprint } = entry;
    // Before the queue is touched: it takes memory, and there may be none.
    const key = fingerprint && this.#journal.contents.keys.begin(fingerprint);
    let batch = this.#queue.at(-1);
    if (!batch?.hasRoomFor(entry)) {
      batch = new Batch();
      this.#queue.push(batch);
    }
    batch.add(entry, key);
    this.#running ??= this.#run();
    return batch.written;
  }

  /** Done once nothing is being written any more. */
  async finish(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Whatever arrived together with the first goes into the same batch.
    await new Promise(setImmediate);
    let last: Batch | undefined;
    for (let batch = this.#queue.shift(); batch; batch = this.#queue.shift()) {
      const writing = this.#write(batch);
      // Those of the last batch are told while the disk works on this one.
      last?.resolve();
      last = batch;
      try {
        await writing;
      } catch (error) {
        last = undefined;
        this.#failure = this.#fail(error);
        for (const { reject } of [batch, ...this.#queue.splice(0)]) reject(this.#failure);
      }
    }
    last?.resolve();
    this.#running = undefined;
  }

  async #write({ entries, keys }: Batch): Promise<void> {
    const { file, contents, end } = this.#journal;
    const at = Math.trunc(this.#clock.now());
    const { line, start, ends } = encodeBatch(contents.seq + 1, at, entries);
    await expectStatus(file, end);
    await writeAll(file, line, end);
    await file.datasync();
    await expectStatus(file, end + line.length);
    this.#journal.end = end + line.length;
    contents.seq++;
    const first = contents.inventory.append({
      bytes: line,
      start,
      count: entries.length,
      ids: entries.map(({ id }) => id),
      statuses: entries.map(({ status }) => status),
      ends,
    });
    keys.forEach((key, i) => {
      if (key !== undefined) contents.keys.remember(key, first + i, at);
    });
  }
}

/** Somebody may have tidied up: what is synced to a file without a name is gone when the process ends. */
async function expectStatus(file: OpenFile, length: number): Promise<void> {
  const { size, names } = await file.status();
  if (names === 0) throw new Error('it was removed under the running server');
  if (size !== length) throw new Error('something else has changed it under the running server');
}
