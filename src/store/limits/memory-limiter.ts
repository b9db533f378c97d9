import type { SteadyClock } from '../../contract/clock.ts';
import type { Quota } from '../../contract/plans.ts';
import type { BanTracker } from './bans.ts';
import {
  bannedDecision,
  countIn,
  decide,
  type Limiter,
  type RateLimitDecision,
  type Usage,
  type WindowCounts,
} from './limiter.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;
/**
 * How many milliseconds the two clocks may differ without a step of the system time. They are read one after the other,
 * and have different resolutions.
 */
const CLOCK_TOLERANCE = 100;

export type MemoryLimiter = ReturnType<typeof createMemoryLimiter>;

/** Counts requests in memory. The counts are lost when the process ends. It returns a promise only where it stores a ban. */
export function createMemoryLimiter(
  clock: SteadyClock,
  bans?: Pick<BanTracker, 'bannedUntil' | 'recordRefusal' | 'moveBack' | 'lift'>,
) {
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
    return { minute: { ...minute }, day: { ...day }, bannedUntil: bans?.bannedUntil(caller, now) };
  }

  return {
    take(caller: string, quota: Quota): RateLimitDecision | Promise<RateLimitDecision> {
      const now = currentTime();
      const counts = countsOf(caller, now);
      const decision = decide(counts, quota, bans?.bannedUntil(caller, now), now);
      if (decision.banned) return decision;
      if (decision.retryAt !== undefined) {
        const refusal = bans?.recordRefusal(caller, decision.window.resetAt, now);
        if (refusal === undefined) return decision;
        return refusal.then((until) => (until === undefined ? decision : bannedDecision(decision, until)));
      }
      counts.minute.used++;
      if (Number.isFinite(quota.perDay)) counts.day.used++;
      countIn(decision, 1);
      return decision;
    },
    peek(caller: string, quota: Quota): RateLimitDecision {
      const now = currentTime();
      const usage = usageOf(caller, now);
      return decide(usage, quota, usage.bannedUntil, now);
    },
    async usage(callers: readonly string[]): Promise<Usage[]> {
      const now = currentTime();
      return callers.map((caller) => usageOf(caller, now));
    },
    liftBan: async (caller) => bans?.lift(caller),
    /** Forgets all windows. */
    clear: () => callers.clear(),
    // The counts in memory are always available.
    lastWindow: () => undefined,
  } satisfies Limiter & { clear(): void };
}

/** Restarts a counter with the UTC minute or day of `now`. */
function startWindow(counter: WindowCounts['minute'], now: number, length: number): void {
  counter.endsAt = now - (now % length) + length;
  counter.used = 0;
}

/**
 * Returns a function that reads the current time. If the system time was set back since the last call, that function first
 * calls `onSetBack` with the number of milliseconds, so that stored times can be moved by as much.
 */
function detectSetBack(
  { now, elapsed }: SteadyClock,
  onSetBack: (milliseconds: number) => void,
): () => number {
  let lead = now() - elapsed();

  return () => {
    const before = elapsed();
    const time = now();
    const currentLead = time - before;
    if (currentLead < lead - CLOCK_TOLERANCE) {
      onSetBack(lead - currentLead);
      lead = currentLead;
    } else if (currentLead > lead + CLOCK_TOLERANCE) {
      // Either the system time was set forward, or the process was suspended between the two readings. Read `elapsed`
      // again, because a suspension must not increase `lead`.
      lead = Math.max(lead, time - elapsed());
    }
    return time;
  };
}
