import { StoreUnavailableError } from '../errors.ts';
import { BadItemError, ConflictError, closedError, tooManyWaiting } from './failures.ts';
import { CALL_TIMEOUT_MS, type StartCallTimer } from './session.ts';

export type BatchQueueOptions<Item, Result> = {
  /** Makes one call to the database for all items. Returns one result for each item, in the same order. */
  run(items: Item[]): Promise<Result[]>;
  /** The URL of the database without its password. */
  place: string;
  /** About the time of a round trip to the database, in milliseconds. */
  roundTrip?(): number;
  /** How many calls the database can work on at a time. By default 1, for calls that wait for the same locks. */
  parallel?: number;
  /** The largest number of items that wait for the next call. By default 1,000. */
  maxWaiting?: number;
  /** The largest number of items in one call. By default 1,000. */
  maxBatch?: number;
  elapsed?(): number;
  /** `setTimeout` by default. */
  startTimer?: StartCallTimer;
};

/** How often a call is made again after a conflict with another transaction. */
const MAX_RETRIES = 3;

/** The shortest time between two calls if the second does not wait for the result of the first, in milliseconds. */
const SPACING_MS = 3;

type Entry<Item, Result> = {
  item: Item;
  /** Whether the database may have the item. */
  isSent: boolean;
  isSettled: boolean;
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
      maxWaiting: 1_000,
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
   * @throws BadItemError, StoreUnwritableError, or another StoreError if the item was not stored
   */
  add(item: Item): Promise<Result> {
    const { place, maxWaiting } = this.#options;
    if (this.#isClosed) return Promise.reject(closedError(place));
    if (this.#waiting.length >= maxWaiting) return Promise.reject(tooManyWaiting(place));
    return new Promise((resolve, reject) => {
      this.#waiting.push(this.#createEntry(item, resolve, reject));
      this.#send();
    });
  }

  /** Completes the calls of all items that were added. Later items are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #createEntry(
    item: Item,
    resolve: (result: Result) => void,
    reject: (error: unknown) => void,
  ): Entry<Item, Result> {
    const entry: Entry<Item, Result> = {
      item,
      isSent: false,
      isSettled: false,
      resolve(result) {
        entry.isSettled = true;
        clearTimeout(timer);
        resolve(result);
      },
      reject(error) {
        entry.isSettled = true;
        clearTimeout(timer);
        reject(error);
      },
    };
    const { place, startTimer } = this.#options;
    const expire = () => entry.reject(timedOut(place, entry.isSent ? 'unknown' : 'not_done'));
    // After a pause of this process, timers run first. `setImmediate` lets Node read a response that has arrived meanwhile.
    const timer = startTimer(() => setImmediate(expire), CALL_TIMEOUT_MS);
    return entry;
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
      const running = this.#runBatch(this.#waiting.splice(0, maxBatch)).finally(() => {
        this.#running.delete(running);
        const time = elapsed() - sentAt - roundTrip();
        // One slow call means little.
        this.#databaseTime = Math.min(time, (this.#databaseTime + time) / 2);
        this.#send();
      });
      this.#running.add(running);
    }
  }

  async #runBatch(batch: Entry<Item, Result>[]): Promise<void> {
    const outage = await this.#run(batch);
    if (outage === undefined) return;
    const error = notSent(outage);
    for (const entry of [...batch, ...this.#waiting.splice(0)]) entry.reject(error);
  }

  /**
   * Sends the entries, and settles those that were sent. If the database cannot be used, returns the error for those that
   * were not sent.
   */
  async #run(entries: Entry<Item, Result>[], retries = 0): Promise<StoreUnavailableError | undefined> {
    const open = entries.filter(({ isSettled }) => !isSettled);
    if (open.length === 0) return undefined;
    for (const entry of open) entry.isSent = true;
    try {
      const results = await this.#options.run(open.map(({ item }) => item));
      for (const [i, entry] of open.entries()) entry.resolve(results[i] as Result);
      return undefined;
    } catch (error) {
      for (const entry of open) entry.isSent = false;
      if (error instanceof ConflictError && retries < MAX_RETRIES) return this.#run(open, retries + 1);
      if (error instanceof BadItemError && open.length > 1) {
        const half = Math.ceil(open.length / 2);
        return (await this.#run(open.slice(0, half))) ?? this.#run(open.slice(half));
      }
      for (const entry of open) entry.reject(error);
      return error instanceof StoreUnavailableError ? error : undefined;
    }
  }
}

const timedOut = (place: string, outcome: StoreUnavailableError['outcome']): StoreUnavailableError =>
  new StoreUnavailableError(`${place} did not respond in time`, 'see the log of PostgreSQL', { outcome });

/** The error of an item that was not sent, because the call before it failed. */
function notSent(outage: StoreUnavailableError): StoreUnavailableError {
  const { message, hint, outcome } = outage;
  return outcome === 'not_done'
    ? outage
    : new StoreUnavailableError(message, hint, { cause: outage, outcome: 'not_done' });
}
