import { StoreUnavailableError } from '../errors.ts';

export type BatchQueueOptions<Item, Result> = {
  /** Makes one call to the database for all items. Returns one result for each item, in the same order. */
  run(items: Item[]): Promise<Result[]>;
  /** How many calls run at a time. By default 1, because calls that wait for the same locks only occupy connections. */
  parallel?: number;
  /** The largest number of items in one call. By default 1,000. */
  maxBatch?: number;
};

type Entry<Item, Result> = {
  item: Item;
  resolve(result: Result): void;
  reject(error: unknown): void;
};

/** Groups items into calls: those that are added in one turn of the event loop, or during a call, form the next call. */
export class BatchQueue<Item, Result> {
  #options: BatchQueueOptions<Item, Result>;
  #waiting: Entry<Item, Result>[] = [];
  #running = new Set<Promise<void>>();
  #soon: NodeJS.Immediate | undefined;

  constructor(options: BatchQueueOptions<Item, Result>) {
    this.#options = options;
  }

  /**
   * Adds an item to the next call. If a running call fails with StoreUnavailableError, waiting items are rejected too.
   *
   * @throws the error of the call, or StoreUnavailableError with the outcome `not_done`
   */
  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#sendSoon();
    });
  }

  /** Completes the calls of all items that were added. */
  async close(): Promise<void> {
    while (this.#waiting.length > 0 || this.#running.size > 0) {
      this.#send();
      await Promise.all(this.#running);
    }
  }

  /** Sends items when all requests of this turn of the event loop have added theirs. */
  #sendSoon(): void {
    this.#soon ??= setImmediate(() => {
      this.#soon = undefined;
      this.#send();
    });
  }

  #send(): void {
    const { parallel = 1, maxBatch = 1_000 } = this.#options;
    while (this.#waiting.length > 0 && this.#running.size < parallel) {
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
      if (!(error instanceof StoreUnavailableError)) return;
      const { message, hint, cause } = error;
      const notSent = new StoreUnavailableError(message, hint, { cause, outcome: 'not_done' });
      for (const { reject } of this.#waiting.splice(0)) reject(notSent);
    }
  }
}
