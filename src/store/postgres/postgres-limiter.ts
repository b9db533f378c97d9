import type { SteadyClock } from '../../contract/clock.ts';
import type { Quota } from '../../contract/plans.ts';
import { addRefusal } from '../limits/bans.ts';
import {
  type BanRule,
  bannedDecision,
  decide,
  type Limiter,
  type RateLimitDecision,
  type RateLimitWindow,
  type Usage,
} from '../limits/limiter.ts';
import { BatchQueue } from './calls/batch-queue.ts';
import type { CallerState, LimitCalls } from './limit-calls.ts';
import { type Take, takeBatch } from './take-batch.ts';

export type PostgresLimiterOptions = {
  rule: BanRule;
  clock: SteadyClock;
  /** The URL of the database without its password. */
  place: string;
  calls: LimitCalls;
};

/** What the database reported about a caller. `askedAt` is when the call was sent, as `clock.elapsed()`. */
type Known = { state: CallerState; window: RateLimitWindow; askedAt: number };

/** The quota in calls that only read the counts, where it has no effect. */
const NO_QUOTA: Quota = { perMinute: 0, perDay: 0 };

/**
 * How often a server tries to store a refusal while other servers store refusals of the same caller. If all attempts fail,
 * the refusal does not count towards a ban.
 */
const MAX_ATTEMPTS = 20;

/**
 * Counts requests in the database, in groups: requests that arrive during a call form the next call. For a caller that has
 * no requests left or is banned, the database is only asked whether its state is still the same, because another server may
 * have reset the store. A refusal is stored if it can matter for a ban.
 */
export class PostgresLimiter implements Limiter {
  #options: PostgresLimiterOptions;
  #queue: BatchQueue<Take, RateLimitDecision>;
  /** Reads the versions of callers. */
  #versions: BatchQueue<string, number | undefined>;
  #known = new Map<string, Known>();
  /** The last change of each caller's refusals. Changes of one caller are made one after the other. */
  #refusing = new Map<string, Promise<unknown>>();
  #begun = 0;

  constructor(options: PostgresLimiterOptions) {
    this.#options = options;
    this.#queue = new BatchQueue({ run: (takes) => this.#run(takes), place: options.place });
    this.#versions = new BatchQueue({ run: (callers) => this.#readVersions(callers), place: options.place });
  }

  /** How many bans this server has begun. */
  get begun(): number {
    return this.#begun;
  }

  async take(caller: string, quota: Quota): Promise<RateLimitDecision> {
    const remembered = this.#decideFromMemory(caller, quota);
    const decision =
      remembered && (await this.#isCurrent(caller))
        ? remembered
        : await this.#queue.add({ caller, quota, count: 1 });
    if (decision.retryAt === undefined) return decision;
    if (!decision.banned) return this.#recordRefusal(caller, decision);
    if (decision.retryAt <= this.#latestEnd(decision.now)) return decision;
    await this.#shortenBan(caller, decision.now);
    return this.#queue.add({ caller, quota, count: 1 });
  }

  peek(caller: string, quota: Quota): Promise<RateLimitDecision> {
    return this.#queue.add({ caller, quota, count: 0 });
  }

  async usage(callers: readonly string[]): Promise<Usage[]> {
    const usages = await this.#options.calls.usage(callers);
    return usages.map(({ minute, day, bannedUntil, now }) => {
      const until = Math.min(bannedUntil, this.#latestEnd(now));
      return { minute, day, bannedUntil: until > now ? until : undefined };
    });
  }

  lastWindow(caller: string): RateLimitWindow | undefined {
    return this.#known.get(caller)?.window;
  }

  /** Forgets all windows and bans, after a reset of the store. */
  clear(): void {
    this.#known.clear();
  }

  async close(): Promise<void> {
    await Promise.all([this.#queue.close(), this.#versions.close()]);
  }

  /** The decision about a caller that has no requests left or is banned; undefined if the database must decide. */
  #decideFromMemory(caller: string, quota: Quota): RateLimitDecision | undefined {
    const known = this.#known.get(caller);
    if (!known) return undefined;
    const { minute, day, bannedUntil } = known.state;
    const now = this.#timeOf(known);
    const decision = decide({ minute, day }, quota, bannedUntil > now ? bannedUntil : undefined, now);
    return decision.retryAt !== undefined && decision.retryAt > now ? decision : undefined;
  }

  /** Whether the refusals and the ban of a caller are still the known ones, and the store was not reset. */
  async #isCurrent(caller: string): Promise<boolean> {
    const version = this.#known.get(caller)?.state.version;
    return (await this.#versions.add(caller)) === version;
  }

  async #readVersions(callers: string[]): Promise<(number | undefined)[]> {
    const each = [...new Set(callers)];
    const usages = await this.#options.calls.usage(each);
    const versions = new Map(each.map((caller, i) => [caller, usages[i]?.version]));
    return callers.map((caller) => versions.get(caller));
  }

  /**
   * Estimates the time of the database, in whole milliseconds. The estimate can be ahead by the duration of the last call,
   * so that no caller is refused from memory after its window or ban has ended.
   */
  #timeOf({ state, askedAt }: Known): number {
    return state.now + Math.floor(this.#options.clock.elapsed() - askedAt);
  }

  async #run(takes: Take[]): Promise<RateLimitDecision[]> {
    const { clock, calls } = this.#options;
    const askedAt = clock.elapsed();
    const taken = await takeBatch(takes, calls);
    return taken.map(({ caller, state, decision }) => {
      this.#known.set(caller, { state, window: decision.window, askedAt });
      return decision;
    });
  }

  /** The latest end of a ban. A stored ban that ends later began under another rule, or while the clock was ahead. */
  #latestEnd(now: number): number {
    const { after, milliseconds } = this.#options.rule;
    return after === 0 ? now : now + milliseconds;
  }

  async #shortenBan(caller: string, now: number): Promise<void> {
    const known = this.#known.get(caller);
    if (!known) return;
    const { state } = known;
    const next = { refusals: state.refusals, bannedUntil: this.#latestEnd(now) };
    // If another server has just changed the ban, nothing is stored, and the next call reads the new ban.
    await this.#options.calls.storeRefusal(caller, state.version, next);
    this.#known.delete(caller);
  }

  /** Records a refused request if it counts towards a ban (D9). Returns the decision, which may be a ban. */
  #recordRefusal(caller: string, decision: RateLimitDecision): Promise<RateLimitDecision> {
    if (this.#options.rule.after === 0) return Promise.resolve(decision);
    const recording = (this.#refusing.get(caller) ?? Promise.resolve()).then(() =>
      this.#storeRefusal(caller, decision),
    );
    const ended = recording.then(
      () => {},
      () => {},
    );
    this.#refusing.set(caller, ended);
    ended.then(() => {
      if (this.#refusing.get(caller) === ended) this.#refusing.delete(caller);
    });
    return recording;
  }

  async #storeRefusal(caller: string, decision: RateLimitDecision): Promise<RateLimitDecision> {
    const { rule, clock, calls } = this.#options;
    const { window, now } = decision;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const known = this.#known.get(caller);
      if (!known) return decision;
      const { state } = known;
      if (state.bannedUntil > now) return bannedDecision(decision, state.bannedUntil);
      const next = addRefusal(state, rule, window.resetAt, now);
      if (next === state) return decision;
      if (await calls.storeRefusal(caller, state.version, next)) {
        known.state = { ...state, ...next, version: state.version + 1 };
        if (next.bannedUntil === state.bannedUntil) return decision;
        this.#begun += 1;
        return bannedDecision(decision, next.bannedUntil);
      }
      // Another server has recorded a refusal of the caller, or a ban.
      const askedAt = clock.elapsed();
      const states = await calls.take([{ caller, quota: NO_QUOTA, count: 0 }]);
      const current = states.get(caller);
      if (current) this.#known.set(caller, { ...known, state: current, askedAt });
    }
    return decision;
  }
}
