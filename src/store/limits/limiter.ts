import type { Clock, SteadyClock } from '../../contract/clock.ts';
import type { Quota } from '../../contract/plans.ts';

/** The values of the three rate-limit headers (docs/service.md 8.3). `resetAt` is in milliseconds since the epoch. */
export type RateLimitWindow = { limit: number; remaining: number; resetAt: number };

/** Both windows of a caller. */
type RateLimitWindows = Readonly<Record<'minute' | 'day', RateLimitWindow>>;

/**
 * `window` is the one of the two windows that has fewer requests left, or describes the ban of a banned caller. `now` is the
 * time at which the limiter decided, by the limiter's own clock. `retryAt` is set if the request is rejected; `banned` if
 * the caller is banned. All times are in milliseconds since the epoch.
 */
export type RateLimitDecision = {
  window: RateLimitWindow;
  windows: RateLimitWindows;
  now: number;
  retryAt?: number;
  banned?: true;
};

/** When and for how long an API key is banned (docs/service.md 8.4, D9). */
export type BanRule = {
  /** How many requests after a 429, within a minute, ban a key; 0 turns bans off. */
  after: number;
  /** How long a ban lasts. */
  milliseconds: number;
};

/** How many bans this process has begun, and how many callers are banned now. */
export type BanCounts = { begun: number; active: number };

/** Counts requests per caller, in fixed windows that are aligned to the UTC minute and day (D8). */
export interface Limiter {
  /**
   * Counts one request, or rejects it. A rejected request is not counted (D8), but can cause a ban (D9).
   *
   * @throws StoreUnavailableError if the counts are not available for now
   */
  take(caller: string, quota: Quota): RateLimitDecision | Promise<RateLimitDecision>;
  /** The caller's current window and ban, without counting a request. @throws StoreUnavailableError */
  peek(caller: string, quota: Quota): RateLimitDecision | Promise<RateLimitDecision>;
  /** The current windows and bans of callers, in the same order. Changes nothing. @throws StoreUnavailableError */
  usage(callers: readonly string[]): Promise<Usage[]>;
  /** Ends the ban of a caller, if there is one, and forgets its rejected requests. @throws StoreUnavailableError */
  liftBan(caller: string): Promise<void>;
  /** The window of an earlier decision about the caller, for responses while the counts are not available. */
  lastWindow(caller: string): RateLimitWindow | undefined;
}

/** The requests that a caller has made in the current windows. The ends are in milliseconds since the epoch. */
type WindowCounts = {
  minute: { endsAt: number; used: number };
  day: { endsAt: number; used: number };
};

/** What is counted for a caller, and when the caller's ban ends; undefined if the caller is not banned. */
export type Usage = WindowCounts & { bannedUntil: number | undefined };

/** The decision about the next request of a caller, before it is counted. */
export function decide(
  { minute, day }: WindowCounts,
  { perMinute, perDay }: Quota,
  bannedUntil: number | undefined,
  now: number,
): RateLimitDecision {
  const windows = {
    minute: { limit: perMinute, remaining: Math.max(0, perMinute - minute.used), resetAt: minute.endsAt },
    day: { limit: perDay, remaining: Math.max(0, perDay - day.used), resetAt: day.endsAt },
  };
  // Report the window with fewer requests left. If equal, report the day, so that clients do not return too early.
  const window = windows.day.remaining <= windows.minute.remaining ? windows.day : windows.minute;
  if (bannedUntil !== undefined) return bannedDecision({ window, windows, now }, bannedUntil);
  return window.remaining === 0
    ? { window, windows, now, retryAt: window.resetAt }
    : { window, windows, now };
}

/** Counts requests in a decision that allows them. Both windows lose them, so the same window still has fewer left. */
export function countIn({ windows: { minute, day } }: RateLimitDecision, requests: number): void {
  minute.remaining -= requests;
  day.remaining -= requests;
}

/** A banned key has no requests left until the ban ends. */
function bannedDecision({ window, windows, now }: RateLimitDecision, until: number): RateLimitDecision {
  const banWindow = { limit: window.limit, remaining: 0, resetAt: until };
  return { window: banWindow, windows, now, retryAt: until, banned: true };
}

/** The rejected requests of one caller. Times are in milliseconds since the epoch. */
type RefusedRequests = {
  /** The end of the rate-limit window in which the latest request was rejected. */
  resetAt: number;
  /** The time of the first rejected request in that window. */
  firstAt: number;
  /** The times of the rejected requests in the last minute that count towards a ban. */
  counted: number[];
};

const SECOND = 1_000;
const MINUTE = 60_000;

type BanTracker = ReturnType<typeof createBanTracker>;

/**
 * Bans callers that continue to send requests after a 429. `stored` maps callers that were banned in an earlier run to
 * the ends of their bans, in milliseconds since the epoch. `save` stores all bans when a ban begins or its end changes.
 * It must not reject, and returns whether the bans were stored. If not, it is called again at later requests.
 */
export function createBanTracker(
  rule: BanRule,
  clock: Clock,
  stored: ReadonlyMap<string, number> = new Map(),
  save: (bans: ReadonlyMap<string, number>) => Promise<boolean> = async () => true,
) {
  // No ban lasts longer than `rule.milliseconds` from now. A longer one was stored with another rule, or while the clock
  // was ahead.
  const latestEnd = clock.now() + rule.milliseconds;
  const banned = new Map(
    rule.after === 0 ? [] : [...stored].map(([caller, until]) => [caller, Math.min(until, latestEnd)]),
  );
  const refused = new Map<string, RefusedRequests>();
  let begun = 0;
  let lastSave = Promise.resolve();
  let lastSaveAt = 0;
  let isSaved = true;
  // Save the earlier ends. Otherwise, every restart would extend these bans again.
  if ([...banned].some(([caller, until]) => until !== stored.get(caller))) saveActive();

  function activeBans(): Map<string, number> {
    const now = clock.now();
    return new Map([...banned].filter(([, end]) => end > now));
  }

  function saveActive(): Promise<void> {
    const active = activeBans();
    lastSaveAt = clock.now();
    // One save at a time, so that an older list cannot overwrite a newer one.
    lastSave = lastSave.then(async () => {
      isSaved = await save(active);
    });
    return lastSave;
  }

  return {
    /** The end of the caller's ban; undefined if the caller is not banned. `now` is the time of the request. */
    bannedUntil(caller: string, now: number): number | undefined {
      if (!isSaved && Math.abs(now - lastSaveAt) >= SECOND) saveActive();
      const until = banned.get(caller);
      if (until === undefined || until > now) return until;
      banned.delete(caller);
      return undefined;
    },
    /**
     * Records a rejected request of a caller that is not banned (docs/service.md 8.4, D9). Returns the end of the ban if the
     * request causes a ban. `now` is the time of the request: if the clock were read again, Retry-After could be a second
     * longer than the ban.
     *
     * Requests within a second after the first rejected one of a window do not count towards a ban, because the client may
     * have sent them before it received the 429.
     */
    async recordRefusal(caller: string, resetAt: number, now: number): Promise<number | undefined> {
      let refusals = refused.get(caller);
      if (refusals?.resetAt === resetAt) {
        if (now - refusals.firstAt < SECOND) return undefined;
        refusals.counted = [...refusals.counted.filter((at) => now - at < MINUTE), now];
      } else {
        const counted = refusals?.counted.filter((at) => now - at < MINUTE) ?? [];
        refusals = { resetAt, firstAt: now, counted };
        refused.set(caller, refusals);
      }
      if (rule.after === 0 || refusals.counted.length < rule.after) return undefined;
      // Keep `firstAt`, so that requests after the ban count immediately if their window is still the same.
      refusals.counted = [];
      const until = now + rule.milliseconds;
      banned.set(caller, until);
      begun++;
      await saveActive();
      return until;
    },
    /** Moves all times back, after the clock was set back by as much. Otherwise, bans would last longer. */
    moveBack(by: number): void {
      for (const [caller, until] of banned) banned.set(caller, until - by);
      for (const refusals of refused.values()) {
        refusals.resetAt -= by;
        refusals.firstAt -= by;
        refusals.counted = refusals.counted.map((at) => at - by);
      }
      if (banned.size > 0) saveActive();
    },
    /**
     * Ends the caller's ban, and forgets its rejected requests. Resolves when the change is saved, or cannot be saved for
     * now.
     */
    async lift(caller: string): Promise<void> {
      refused.delete(caller);
      if (banned.delete(caller)) await saveActive();
    },
    /** Ends all bans. */
    async clear(): Promise<void> {
      const isStored = banned.size > 0 || !isSaved;
      banned.clear();
      refused.clear();
      if (isStored) await saveActive();
    },
    /** How many bans have begun since the start, and how many callers are banned now. */
    count: (): BanCounts => ({ begun, active: activeBans().size }),
    /** Resolves when all changes of bans are saved, or cannot be saved even at another attempt. */
    async saved(): Promise<void> {
      await lastSave;
      if (!isSaved) await saveActive();
    },
  };
}

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
