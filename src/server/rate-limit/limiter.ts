import type { SteadyClock } from '../../contract/clock.ts';
import type { Quota } from '../../contract/plans.ts';
import type { BanTracker } from './bans.ts';
import { detectSetBack } from './clock-steps.ts';

/** The values of the three rate-limit headers (docs/service.md 8.3). `resetAt` is in milliseconds since the epoch. */
export type RateLimitWindow = { limit: number; remaining: number; resetAt: number };

/** `retryAt` (milliseconds since the epoch) is set if the request is rejected; `banned` if the caller is banned. */
export type RateLimitDecision = { window: RateLimitWindow; retryAt?: number; banned?: true };

/** Counts requests per caller. The methods are asynchronous, so that other limiters could use a shared database. */
export type RateLimiter = ReturnType<typeof createMemoryRateLimiter>;

const MINUTE = 60_000;
const DAY = 86_400_000;

/** The requests in one window. `endsAt` is in milliseconds since the epoch. */
type Counter = { endsAt: number; used: number };
type Counters = { minute: Counter; day: Counter };

/** Counts in fixed windows, aligned to the UTC minute and day (D8). The counts are lost when the process ends. */
export function createMemoryRateLimiter(
  clock: SteadyClock,
  bans?: Pick<BanTracker, 'bannedUntil' | 'recordRefusal' | 'moveBack'>,
) {
  const callers = new Map<string, Counters>();
  let sweptAt = 0;
  // If the clock is set back, running windows keep the time that they have left.
  const currentTime = detectSetBack(clock, (milliseconds) => {
    for (const { minute, day } of callers.values()) {
      minute.endsAt -= milliseconds;
      day.endsAt -= milliseconds;
    }
    sweptAt -= milliseconds;
    bans?.moveBack(milliseconds);
  });

  function countersOf(caller: string): Counters {
    const now = currentTime();
    // Drop expired counters once a minute, so that addresses of anonymous callers do not accumulate.
    if (now - sweptAt >= MINUTE) {
      sweptAt = now;
      for (const [name, { minute, day }] of callers) {
        const isExpired = now >= minute.endsAt && (day.used === 0 || now >= day.endsAt);
        if (isExpired) callers.delete(name);
      }
    }
    let counters = callers.get(caller);
    if (counters === undefined) {
      counters = { minute: { endsAt: 0, used: 0 }, day: { endsAt: 0, used: 0 } };
      callers.set(caller, counters);
    }
    if (now >= counters.minute.endsAt) startWindow(counters.minute, now, MINUTE);
    if (now >= counters.day.endsAt) startWindow(counters.day, now, DAY);
    return counters;
  }

  return {
    /** Counts one request or rejects it; a rejected request is not counted (D8). */
    async consume(caller: string, quota: Quota): Promise<RateLimitDecision> {
      const counters = countersOf(caller);
      const decision = evaluate(counters, quota, bans?.bannedUntil(caller));
      if (decision.banned) return decision;
      if (decision.retryAt !== undefined) {
        const bannedUntil = await bans?.recordRefusal(caller, decision.window.resetAt);
        return bannedUntil === undefined ? decision : bannedDecision(decision.window, bannedUntil);
      }
      counters.minute.used++;
      if (Number.isFinite(quota.perDay)) counters.day.used++;
      // Both windows lose one request, so the same window still has fewer requests left.
      decision.window.remaining--;
      return decision;
    },
    /** The caller's current window and ban, without counting a request. */
    async peek(caller: string, quota: Quota): Promise<RateLimitDecision> {
      return evaluate(countersOf(caller), quota, bans?.bannedUntil(caller));
    },
  };
}

/** Restarts a counter with the UTC minute or day of `now`. */
function startWindow(counter: Counter, now: number, length: number): void {
  counter.endsAt = now - (now % length) + length;
  counter.used = 0;
}

function evaluate(
  { minute, day }: Counters,
  { perMinute, perDay }: Quota,
  bannedUntil: number | undefined,
): RateLimitDecision {
  const leftThisMinute = Math.max(0, perMinute - minute.used);
  const leftToday = Math.max(0, perDay - day.used);
  // Report the window with fewer requests left. If equal, report the day, so that clients do not return too early.
  const window =
    leftToday <= leftThisMinute
      ? { limit: perDay, remaining: leftToday, resetAt: day.endsAt }
      : { limit: perMinute, remaining: leftThisMinute, resetAt: minute.endsAt };
  if (bannedUntil !== undefined) return bannedDecision(window, bannedUntil);
  return window.remaining === 0 ? { window, retryAt: window.resetAt } : { window };
}

/** A banned key has no requests left until the ban ends. */
function bannedDecision({ limit }: RateLimitWindow, until: number): RateLimitDecision {
  return { window: { limit, remaining: 0, resetAt: until }, retryAt: until, banned: true };
}
