import type { Clock } from '../../contract/clock.ts';
import type { Quota } from '../../contract/plans.ts';
import { type Awaitable, next } from '../awaitable.ts';
import type { Bans } from './bans.ts';

/** What the three headers of the specification (8.3) report. `resetAt` is in milliseconds since the epoch. */
export type Window = { limit: number; remaining: number; resetAt: number };

/** `retryAt` (milliseconds since the epoch) is set where the request is refused; `banned` where the key is. */
export type Verdict = { window: Window; retryAt?: number; banned?: true };

/** Counts requests per caller. Several processes may share one, so it may answer later. */
export interface Limiter {
  /** Counts one request, or refuses it; a refused one spends nothing (design D8). */
  take(caller: string, quota: Quota): Awaitable<Verdict>;
  /** The caller's state, and whether a request would be refused, without counting one. */
  peek(caller: string, quota: Quota): Awaitable<Verdict>;
}

const MINUTE = 60_000;
const DAY = 86_400_000;

type Counter = { start: number; used: number };
type Counters = { minute: Counter; day: Counter };

/**
 * Fixed windows aligned to the UTC minute and day, in memory: the counts start anew with the process. Without `bans`
 * nobody is banned.
 */
export function createMemoryLimiter(clock: Clock, bans?: Bans): Limiter {
  const callers = new Map<string, Counters>();
  let sweptAt = 0;

  function countersOf(caller: string, now: number): Counters {
    // Once a minute what has run out is dropped, so that strangers' addresses do not pile up.
    if (now - sweptAt >= MINUTE) {
      sweptAt = now;
      for (const [name, { minute, day }] of callers) {
        const idle = now >= minute.start + MINUTE && (day.used === 0 || now >= day.start + DAY);
        if (idle) callers.delete(name);
      }
    }
    let counters = callers.get(caller);
    if (counters === undefined) {
      counters = { minute: { start: 0, used: 0 }, day: { start: 0, used: 0 } };
      callers.set(caller, counters);
    }
    roll(counters.minute, now, MINUTE);
    roll(counters.day, now, DAY);
    return counters;
  }

  return {
    take(caller, quota) {
      const counters = countersOf(caller, clock.now());
      const before = judge(counters, quota);
      const ban = bans?.until(caller);
      if (ban !== undefined) return banned(before, ban);
      if (before.retryAt !== undefined) {
        return next(bans?.refused(caller, before.window.resetAt), (begun) =>
          begun === undefined ? before : banned(before, begun),
        );
      }
      counters.minute.used++;
      if (Number.isFinite(quota.perDay)) counters.day.used++;
      // Both windows have one less: the one that is reported stays the same.
      before.window.remaining--;
      return before;
    },
    peek(caller, quota) {
      const verdict = judge(countersOf(caller, clock.now()), quota);
      const ban = bans?.until(caller);
      return ban === undefined ? verdict : banned(verdict, ban);
    },
  };
}

/** Nothing is left to a banned key until its ban ends. */
function banned({ window }: Verdict, until: number): Verdict {
  return { window: { ...window, remaining: 0, resetAt: until }, retryAt: until, banned: true };
}

/** A window that has passed starts anew; a clock that steps back never reopens one. */
function roll(counter: Counter, now: number, length: number): void {
  const start = now - (now % length);
  if (start > counter.start) {
    counter.start = start;
    counter.used = 0;
  }
}

function judge({ minute, day }: Counters, quota: Quota): Verdict {
  const perMinute = windowOf(minute, quota.perMinute, MINUTE);
  const perDay = windowOf(day, quota.perDay, DAY);
  // The one with fewer requests left is reported; of two alike the later, so that nobody comes back too early.
  const window = perDay.remaining <= perMinute.remaining ? perDay : perMinute;
  return window.remaining === 0 ? { window, retryAt: window.resetAt } : { window };
}

function windowOf(counter: Counter, limit: number, length: number): Window {
  return { limit, remaining: Math.max(0, limit - counter.used), resetAt: counter.start + length };
}
