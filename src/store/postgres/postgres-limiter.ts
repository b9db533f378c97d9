import type { Quota } from '../../contract/plans.ts';
import {
  type BanRule,
  decisionFor,
  type Limiter,
  type RateLimitDecision,
  type RateLimitWindow,
  subtractRequests,
  type Usage,
} from '../limits/limiter.ts';
import { BatchQueue } from './batch-queue.ts';
import type { DatabaseForServer } from './database.ts';

/** A request to count; with `count` 0, the counts are only read. */
type Take = { caller: string; quota: Quota; count: 0 | 1 };

/** What `pets.take` has decided about the requests of a caller. The driver returns columns of type `bigint` as text. */
type TakeRow = {
  n: number;
  granted: number;
  refused: number;
  begins_ban: boolean;
  minute_end: string;
  minute_used: string;
  day_end: string;
  day_used: string;
  banned_until: string;
  now: string;
};

/** The maximum number of requests that are counted in one call. */
const MAX_TAKES = 1_000;

/** The quota in calls that only read the counts, where it has no effect. */
const NO_QUOTA: Quota = { perMinute: 0, perDay: 0 };

/**
 * Counts requests in the database, many in one call (`BatchQueue`). The function `pets.take` (limits.sql) decides how
 * many requests of each caller are granted and refused, and which one begins a ban.
 */
export class PostgresLimiter implements Limiter {
  #database: DatabaseForServer;
  #rule: BanRule;
  #queue: BatchQueue<Take, RateLimitDecision>;
  #lastWindows = new Map<string, RateLimitWindow>();
  #begun = 0;

  constructor(database: DatabaseForServer, rule: BanRule) {
    this.#database = database;
    this.#rule = rule;
    this.#queue = new BatchQueue({ parallel: 1, maxBatch: MAX_TAKES, run: (takes) => this.#run(takes) });
  }

  /** How many bans this server has begun. */
  get begun(): number {
    return this.#begun;
  }

  take(caller: string, quota: Quota): Promise<RateLimitDecision> {
    return this.#queue.add({ caller, quota, count: 1 });
  }

  peek(caller: string, quota: Quota): Promise<RateLimitDecision> {
    return this.#queue.add({ caller, quota, count: 0 });
  }

  async usage(callers: readonly string[]): Promise<Usage[]> {
    const groups = new Map(callers.map((caller) => [caller, { quota: NO_QUOTA, count: 0 }]));
    const rows = await this.#take(groups);
    return callers.map((caller) => {
      const row = rowOf(caller, rows);
      const until = Number(row.banned_until);
      return { ...windowsOf(row), bannedUntil: until > Number(row.now) ? until : undefined };
    });
  }

  async liftBan(caller: string): Promise<void> {
    await this.#database.call('lift_ban', Buffer.from(caller, 'hex'));
    this.#lastWindows.delete(caller);
  }

  lastWindow(caller: string): RateLimitWindow | undefined {
    return this.#lastWindows.get(caller);
  }

  /** Forgets the windows that were reported, after a reset of the store. */
  clear(): void {
    this.#lastWindows.clear();
  }

  close(): Promise<void> {
    return this.#queue.close();
  }

  async #run(takes: readonly Take[]): Promise<RateLimitDecision[]> {
    const groups = new Map<string, { quota: Quota; count: number }>();
    for (const { caller, quota, count } of takes) {
      groups.set(caller, { quota, count: (groups.get(caller)?.count ?? 0) + count });
    }
    const rows = await this.#take(groups);
    const decided = new Map<string, number>();
    return takes.map(({ caller, count }) => {
      const earlier = decided.get(caller) ?? 0;
      decided.set(caller, earlier + count);
      const decision = decideOne(rowOf(caller, rows), groups.get(caller)?.quota ?? NO_QUOTA, count, earlier);
      this.#lastWindows.set(caller, decision.window);
      return decision;
    });
  }

  async #take(
    groups: ReadonlyMap<string, { quota: Quota; count: number }>,
  ): Promise<ReadonlyMap<string, TakeRow>> {
    const callers = [...groups.keys()];
    const all = [...groups.values()];
    const rows = await this.#database.call<TakeRow>(
      'take',
      callers.map((caller) => Buffer.from(caller, 'hex')),
      all.map(({ count }) => count),
      all.map(({ quota }) => quota.perMinute),
      all.map(({ quota }) => quota.perDay),
      this.#rule.after,
      this.#rule.milliseconds,
      this.#database.testTime(),
    );
    for (const { begins_ban } of rows) if (begins_ban) this.#begun += 1;
    return new Map(rows.map((row) => [callers[row.n - 1] ?? '', row]));
  }
}

function rowOf(caller: string, rows: ReadonlyMap<string, TakeRow>): TakeRow {
  const row = rows.get(caller);
  if (!row) throw new Error('the database returned no counts for a caller');
  return row;
}

/** The decision about a request, after `earlier` requests of the same caller in the same call. */
function decideOne(row: TakeRow, quota: Quota, count: 0 | 1, earlier: number): RateLimitDecision {
  const { granted, refused } = row;
  const [now, until] = [Number(row.now), Number(row.banned_until)];
  const { minute, day } = windowsOf(row);
  // The row counts all requests of the call. Subtract those that are not earlier than this one.
  const notEarlier = Math.max(0, granted - earlier);
  minute.used -= notEarlier;
  day.used -= notEarlier;
  const isBanned = until > now && earlier >= granted + refused;
  const decision = decisionFor({ minute, day }, quota, isBanned ? until : undefined, now);
  if (decision.retryAt === undefined) subtractRequests(decision, count);
  return decision;
}

const windowsOf = (row: TakeRow) => ({
  minute: { endsAt: Number(row.minute_end), used: Number(row.minute_used) },
  day: { endsAt: Number(row.day_end), used: Number(row.day_used) },
});
