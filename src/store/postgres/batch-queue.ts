import { StoreUnavailableError } from '../errors.ts';
import { closedError } from './failures.ts';

export type BatchQueueOptions<Item, Result> = {
  /**
   * Makes one call to the database for all items, and settles within about two seconds. Returns one result for each
   * item, in the same order.
   */
  run(items: Item[]): Promise<Result[]>;
  /** The URL of the database without its password. */
  place: string;
  /** About the time of a round trip to the database, in milliseconds. */
  roundTrip?(): number;
  /** How many calls the database can work on at a time. By default 1, for calls that wait for the same locks. */
  parallel?: number;
  /** The largest number of items in one call. By default 1,000. */
  maxBatch?: number;
  elapsed?(): number;
};

/** Even if `parallel` calls are running, another one starts, but only this many milliseconds after the latest start. */
const SPACING_MS = 3;

type Entry<Item, Result> = {
  item: Item;
  resolve(result: Result): void;
  reject(error: unknown): void;
};

/**
 * Groups items into calls: those that are added in one turn of the event loop, or during a call, form the next call. If
 * the network is slow, a call does not wait for the result of the one before, so that the database works on one call
 * while others are on their way.
 */
export class BatchQueue<Item, Result> {
  #options: Required<BatchQueueOptions<Item, Result>>;
  #waiting: Entry<Item, Result>[] = [];
  #running = new Set<Promise<void>>();
  #lastSentAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Immediate | undefined;
  #isClosed = false;

  constructor(options: BatchQueueOptions<Item, Result>) {
    this.#options = {
      roundTrip: () => 0,
      parallel: 1,
      maxBatch: 1_000,
      elapsed: () => performance.now(),
      ...options,
    };
  }

  /**
   * Adds an item to the next call. If a running call fails with StoreUnavailableError, waiting items are rejected too.
   *
   * @throws StoreUnavailableError whose `outcome` says whether the item may have been stored
   * @throws StoreUnwritableError, or another StoreError if the item was not stored
   */
  add(item: Item): Promise<Result> {
    if (this.#isClosed) return Promise.reject(closedError(this.#options.place));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#sendSoon();
    });
  }

  /** Completes the calls of all items that were added. Later items are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    while (this.#waiting.length > 0 || this.#running.size > 0) {
      this.#send();
      await Promise.all(this.#running);
    }
  }

  /** Makes the calls that are due, but only when all requests of this turn of the event loop have added their items. */
  #sendSoon(): void {
    this.#soon ??= setImmediate(() => {
      this.#soon = undefined;
      this.#send();
    });
  }

  /** Makes the calls that are due now. A timer, or the end of a call, makes the later ones. */
  #send(): void {
    const { parallel, roundTrip, maxBatch, elapsed } = this.#options;
    while (this.#waiting.length > 0) {
      if (this.#running.size >= parallel) {
        // Enough calls are running: those that the database works on, and those that can be on their way.
        if (this.#running.size >= parallel + Math.floor(roundTrip() / SPACING_MS)) return;
        const wait = this.#lastSentAt + SPACING_MS - elapsed();
        if (wait > 0) {
          this.#timer ??= setTimeout(() => {
            this.#timer = undefined;
            this.#send();
          }, wait);
          return;
        }
      }
      this.#lastSentAt = elapsed();
      const running = this.#run(this.#waiting.splice(0, maxBatch)).finally(() => {
        this.#running.delete(running);
        this.#sendSoon();
      });
      this.#running.add(running);
    }
  }

  async #run(batch: Entry<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#options.run(batch.map(({ item }) => item));
      for (const [i, { resolve }] of batch.entries()) resolve(results[i] as Result);
    } catch (error) {
      for (const { reject } of batch) reject(error);
      if (error instanceof StoreUnavailableError) {
        const { message, hint } = error;
        const notSent = new StoreUnavailableError(message, hint, { cause: error.cause, outcome: 'not_done' });
        for (const { reject } of this.#waiting.splice(0)) reject(notSent);
      }
    }
  }
}
