import { StoreUnavailableError } from '../errors.ts';
import { closedError } from './failures.ts';
import { CALL_TIMEOUT_MS, type StartCallTimer } from './pool.ts';

export type BatchQueueOptions<Item, Result> = {
  /** Makes one call to the database for all items. Returns one result for each item, in the same order. */
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
  /** `setTimeout` by default. */
  startTimer?: StartCallTimer;
};

/** The shortest time between two calls if the second does not wait for the result of the first, in milliseconds. */
const SPACING_MS = 3;

type Entry<Item, Result> = {
  item: Item;
  /** Whether the database may have the item. */
  isSent: boolean;
  /** Whether the item was rejected, because no result arrived within `CALL_TIMEOUT_MS`. It is then not sent any more. */
  hasExpired: boolean;
  timer: NodeJS.Timeout | undefined;
  resolve(result: Result): void;
  reject(error: unknown): void;
};

/**
 * Groups items into calls: the items that are added during a call form the next one. If the network is slow, the next call
 * does not wait for the result of the one before, so that the database works on one call while others are on their way.
 */
export class BatchQueue<Item, Result> {
  #options: Required<BatchQueueOptions<Item, Result>>;
  #waiting: Entry<Item, Result>[] = [];
  #running = new Set<Promise<void>>();
  #lastSentAt = 0;
  /**
   * How long a call takes in the database. With slow commits, calls that are sent earlier would only wait for the same locks,
   * with fewer items each: with a commit of 20 ms and a round trip of 50 ms, 92 instead of 202 requests a second.
   */
  #databaseTime = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: BatchQueueOptions<Item, Result>) {
    this.#options = {
      roundTrip: () => 0,
      parallel: 1,
      maxBatch: 1_000,
      elapsed: () => performance.now(),
      startTimer: setTimeout,
      ...options,
    };
  }

  /**
   * Adds an item to the next call. Resolves or rejects within about two seconds.
   *
   * @throws StoreUnavailableError whose `outcome` says whether the item may have been stored
   * @throws StoreUnwritableError, or another StoreError if the item was not stored
   */
  add(item: Item): Promise<Result> {
    const { place, startTimer } = this.#options;
    if (this.#isClosed) return Promise.reject(closedError(place));
    return new Promise((resolve, reject) => {
      const expire = () => {
        entry.hasExpired = true;
        reject(unavailable(`${place} did not respond in time`, entry.isSent ? 'unknown' : 'not_done'));
      };
      // After a pause of this process, timers run first. `setImmediate` lets Node read a response that has arrived meanwhile.
      const timer = startTimer(() => setImmediate(expire), CALL_TIMEOUT_MS);
      const entry: Entry<Item, Result> = { item, isSent: false, hasExpired: false, timer, resolve, reject };
      this.#waiting.push(entry);
      this.#send();
    });
  }

  /** Completes the calls of all items that were added. Later items are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Makes the next call if it is due. Otherwise, the end of another call or a timer makes it. */
  #send(): void {
    const { parallel, roundTrip, maxBatch, elapsed } = this.#options;
    while (this.#waiting.length > 0) {
      if (this.#running.size >= parallel) {
        // The calls that the database works on, and those that are on the network.
        if (this.#running.size >= parallel + Math.floor(roundTrip() / SPACING_MS)) return;
        const wait = this.#lastSentAt + Math.max(SPACING_MS, this.#databaseTime) - elapsed();
        if (wait > 0) {
          this.#timer ??= setTimeout(() => {
            this.#timer = undefined;
            this.#send();
          }, wait);
          return;
        }
      }
      const sentAt = elapsed();
      this.#lastSentAt = sentAt;
      const running = this.#run(this.#waiting.splice(0, maxBatch)).finally(() => {
        this.#running.delete(running);
        const time = elapsed() - sentAt - roundTrip();
        // One slow call means little.
        this.#databaseTime = Math.min(time, (this.#databaseTime + time) / 2);
        this.#send();
      });
      this.#running.add(running);
    }
  }

  async #run(batch: Entry<Item, Result>[]): Promise<void> {
    const sent = batch.filter(({ hasExpired }) => !hasExpired);
    if (sent.length === 0) return;
    for (const entry of sent) entry.isSent = true;
    try {
      const results = await this.#options.run(sent.map(({ item }) => item));
      for (const [i, { resolve }] of sent.entries()) resolve(results[i] as Result);
    } catch (error) {
      for (const { reject } of sent) reject(error);
      if (error instanceof StoreUnavailableError) {
        const { message, hint } = error;
        const notSent = new StoreUnavailableError(message, hint, { cause: error.cause, outcome: 'not_done' });
        for (const entry of this.#waiting.splice(0)) {
          clearTimeout(entry.timer);
          entry.reject(notSent);
        }
      }
    } finally {
      for (const { timer } of sent) clearTimeout(timer);
    }
  }
}

const unavailable = (message: string, outcome: StoreUnavailableError['outcome']): StoreUnavailableError =>
  new StoreUnavailableError(message, 'see the log of PostgreSQL', { outcome });
