import type { SteadyClock } from '../../contract/clock.ts';
import type { Query, Statement } from './calls/session.ts';

export type IdempotencyExpiryOptions = {
  clock: SteadyClock;
  query: Query;
  /** Replaces the clock of the database in tests. */
  testTime(): number | null;
};

const EXPIRE: Statement = { name: 'expire', text: 'select pets.expire_v1($1) as removed' };

/** The shortest time between two starts. */
const INTERVAL_MS = 60_000;
/** `expire_v1` removes at most this many keys in one call. */
const MAX_REMOVED = 2_000;

/** Removes expired idempotency keys from the database. */
export class IdempotencyExpiry {
  #options: IdempotencyExpiryOptions;
  #startedAt = Number.NEGATIVE_INFINITY;
  #running = Promise.resolve();
  #isClosed = false;

  constructor(options: IdempotencyExpiryOptions) {
    this.#options = options;
  }

  /** Removes all expired keys in the background, at most once a minute. */
  start(): void {
    const now = this.#options.clock.elapsed();
    if (now - this.#startedAt < INTERVAL_MS) return;
    this.#startedAt = now;
    // An error is no problem: expired keys are not used, and the next attempt removes them.
    this.#running = this.#removeAll().catch(() => {});
  }

  /** Completes the call in flight. Later calls are not made. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#running;
  }

  async #removeAll(): Promise<void> {
    const { query, testTime } = this.#options;
    let removed = MAX_REMOVED;
    while (removed === MAX_REMOVED && !this.#isClosed) {
      const [row] = await query<{ removed: number }>(EXPIRE, [testTime()]);
      removed = row?.removed ?? 0;
    }
  }
}
