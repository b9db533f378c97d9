import type { Quota } from '../../contract/plans.ts';
import { BatchQueue } from '../batch-queue.ts';
import {
  type BanRule,
  type Limiter,
  nextDecision,
  type RateLimitDecision,
  subtractRequests,
  type Usage,
} from '../limiter.ts';
import type { DatabaseForServer } from './database.ts';

/** Requests of a caller to count; with `count` 0, the counts are only read. */
type Take = { caller: string; quota: Quota; count: number };

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

/**
 * Counts requests in the database, many in one call (`BatchQueue`). The function `pets.take` (limits.sql) decides how
 * many requests of each caller are granted and refused, and which one begins a ban.
 */
export class PostgresLimiter implements Limiter {
  #database: DatabaseForServer;
  #rule: BanRule;
  #queue: BatchQueue<Take, RateLimitDecision>;
  /** How many bans this server has begun. */
  begun = 0;

  constructor(database: DatabaseForServer, rule: BanRule) {
    this.#database = database;
    this.#rule = rule;
    this.#queue = new BatchQueue({ run: (takes) => this.#run(takes) });
  }

  take(caller: string, quota: Quota): Promise<RateLimitDecision> {
    return this.#queue.add({ caller, quota, count: 1 });
  }

  peek(caller: string, quota: Quota): Promise<RateLimitDecision> {
    return this.#queue.add({ caller, quota, count: 0 });
  }

  async usage(callers: readonly string[]): Promise<Usage[]> {
    // A quota has no effect on counts that are only read.
    const quota = { perMinute: 0, perDay: 0 };
    const rows = await this.#take(callers.map((caller) => ({ caller, quota, count: 0 })));
    return rows.map((row) => {
      const until = Number(row.banned_until);
      return { ...windowsOf(row), bannedUntil: until > Number(row.now) ? until : undefined };
    });
  }

  async liftBan(caller: string): Promise<void> {
    await this.#database.call('lift_ban', Buffer.from(caller, 'hex'));
  }

  close(): Promise<void> {
    return this.#queue.close();
  }

  async #run(takes: readonly Take[]): Promise<RateLimitDecision[]> {
    const sums = new Map<string, Take>();
    for (const take of takes) {
      const count = take.count + (sums.get(take.caller)?.count ?? 0);
      sums.set(take.caller, { ...take, count });
    }
    const rows = await this.#take([...sums.values()]);
    const states = new Map(
      [...sums.keys()].map((caller, i) => [caller, { row: rows[i] as TakeRow, earlier: 0 }]),
    );
    return takes.map((take) => {
      const state = states.get(take.caller) as { row: TakeRow; earlier: number };
      const decision = decideOne(state.row, take, state.earlier);
      state.earlier += take.count;
      return decision;
    });
  }

  /** Counts the requests of callers, each of whom occurs once. Returns what was decided, in the same order. */
  async #take(takes: readonly Take[]): Promise<TakeRow[]> {
    const rows = await this.#database.call<TakeRow>(
      'take',
      takes.map(({ caller }) => Buffer.from(caller, 'hex')),
      takes.map(({ count }) => count),
      takes.map(({ quota }) => quota.perMinute),
      takes.map(({ quota }) => quota.perDay),
      this.#rule.after,
      this.#rule.milliseconds,
      this.#database.testTime(),
    );
    for (const { begins_ban } of rows) if (begins_ban) this.begun += 1;
    return rows.sort((one, other) => one.n - other.n);
  }
}

/** The decision about a request, after `earlier` requests of the same caller in the same call. */
function decideOne(row: TakeRow, { quota, count }: Take, earlier: number): RateLimitDecision {
  const { granted, refused } = row;
  const [now, until] = [Number(row.now), Number(row.banned_until)];
  const { minute, day } = windowsOf(row);
  // The row counts all requests of the call. Subtract those that are not earlier than this one.
  const notEarlier = Math.max(0, granted - earlier);
  minute.used -= notEarlier;
  day.used -= notEarlier;
  const isBanned = until > now && earlier >= granted + refused;
  const decision = nextDecision({ minute, day }, quota, isBanned ? until : undefined, now);
  if (decision.retryAt === undefined) subtractRequests(decision, count);
  return decision;
}

const windowsOf = (row: TakeRow) => ({
  minute: { endsAt: Number(row.minute_end), used: Number(row.minute_used) },
  day: { endsAt: Number(row.day_end), used: Number(row.day_used) },
});
