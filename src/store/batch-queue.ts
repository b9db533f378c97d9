import { StoreUnavailableError } from './errors.ts';

export type BatchQueueOptions<Item, Result> = {
  /** Stores or reads all items in one call. Returns one result for each item, in the same order. */
  run(items: readonly Item[]): Promise<readonly Result[]>;
  /** The maximum number of calls at a time. By default 1, because more calls would only wait for each other. */
  parallel?: number;
  /** The maximum number of waiting items that the next call gets; at least 1. By default 1,000. */
  maxNextItems?(waiting: readonly Item[]): number;
};

type Entry<Item, Result> = {
  item: Item;
  resolve(result: Result): void;
  reject(error: unknown): void;
};

/** The next call waits for at most this many turns of the event loop. */
const MAX_TURNS = 4;

/**
 * Groups items: a call gets those that were added until a turn of the event loop has added none. If it began earlier, clients
 * that wait for their responses would be split into two groups, which take turns: 20 % more processor time with 32 clients.
 */
export class BatchQueue<Item, Result> {
  #options: BatchQueueOptions<Item, Result>;
  #waiting: Entry<Item, Result>[] = [];
  #running = new Set<Promise<void>>();
  #scheduled: NodeJS.Immediate | undefined;

  constructor(options: BatchQueueOptions<Item, Result>) {
    this.#options = options;
  }

  /** Whether items wait or are in a call. */
  get isBusy(): boolean {
    return this.#waiting.length + this.#running.size > 0;
  }

  /**
   * Adds an item to the next call. If a running call fails with StoreUnavailableError, waiting items are rejected too.
   *
   * @throws the error of the call, or StoreUnavailableError with the outcome `not_done`
   */
  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (!this.#scheduled) this.#schedule();
    });
  }

  /** Completes the calls of all items that were added. */
  async close(): Promise<void> {
    while (this.isBusy) {
      this.#send();
      await Promise.all(this.#running);
    }
  }

  #schedule(turns = MAX_TURNS, before = 0): void {
    this.#scheduled = setImmediate(() => {
      const { length } = this.#waiting;
      if (length > before && turns > 0) return this.#schedule(turns - 1, length);
      this.#scheduled = undefined;
      this.#send();
    });
  }

  #send(): void {
    const { parallel = 1, maxNextItems = () => 1_000 } = this.#options;
    while (this.#waiting.length > 0 && this.#running.size < parallel) {
      const batch = this.#waiting.splice(0, maxNextItems(this.#waiting.map(({ item }) => item)));
      const running = this.#run(batch).then(() => {
        this.#running.delete(running);
        if (!this.#scheduled) this.#schedule();
      });
      this.#running.add(running);
    }
  }

  /** Makes a call, and resolves or rejects the promises of its items. */
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
