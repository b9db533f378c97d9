import type { SteadyClock } from '../../contract/clock.ts';
import type { BanTracker } from './bans.ts';
import { detectSetBack } from './clock-steps.ts';
import { bannedDecision, countIn, decide, type Limiter, type Usage, type WindowCounts } from './limiter.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;

/** Counts requests in memory. The counts are lost when the process ends. */
export function createMemoryLimiter(
  clock: SteadyClock,
  bans?: Pick<BanTracker, 'bannedUntil' | 'recordRefusal' | 'moveBack'>,
): Limiter & { clear(): void } {
  const callers = new Map<string, WindowCounts>();
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

  function countsOf(caller: string, now: number): WindowCounts {
    // Drop expired counts once a minute, so that addresses of anonymous callers do not accumulate.
    if (now - sweptAt >= MINUTE) {
      sweptAt = now;
      for (const [name, { minute, day }] of callers) {
        const isExpired = now >= minute.endsAt && (day.used === 0 || now >= day.endsAt);
        if (isExpired) callers.delete(name);
      }
    }
    let counts = callers.get(caller);
    if (counts === undefined) {
      counts = { minute: { endsAt: 0, used: 0 }, day: { endsAt: 0, used: 0 } };
      callers.set(caller, counts);
    }
    if (now >= counts.minute.endsAt) startWindow(counts.minute, now, MINUTE);
    if (now >= counts.day.endsAt) startWindow(counts.day, now, DAY);
    return counts;
  }

  function usageOf(caller: string, now: number): Usage {
    const { minute, day } = countsOf(caller, now);
    return { minute: { ...minute }, day: { ...day }, bannedUntil: bans?.bannedUntil(caller) };
  }

  return {
    async take(caller, quota) {
      const now = currentTime();
      const counts = countsOf(caller, now);
      const decision = decide(counts, quota, bans?.bannedUntil(caller), now);
      if (decision.banned) return decision;
      if (decision.retryAt !== undefined) {
        const bannedUntil = await bans?.recordRefusal(caller, decision.window.resetAt);
        return bannedUntil === undefined ? decision : bannedDecision(decision, bannedUntil);
      }
      counts.minute.used++;
      if (Number.isFinite(quota.perDay)) counts.day.used++;
      countIn(decision, 1);
      return decision;
    },
    async peek(caller, quota) {
      const now = currentTime();
      const usage = usageOf(caller, now);
      return decide(usage, quota, usage.bannedUntil, now);
    },
    async usage(callers) {
      const now = currentTime();
      return callers.map((caller) => usageOf(caller, now));
    },
    /** Forgets all windows. */
    clear: () => callers.clear(),
    // The counts in memory are always available.
    lastWindow: () => undefined,
  };
}

/** Restarts a counter with the UTC minute or day of `now`. */
function startWindow(counter: WindowCounts['minute'], now: number, length: number): void {
  counter.endsAt = now - (now % length) + length;
  counter.used = 0;
}
