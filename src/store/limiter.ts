import type { Quota } from '../contract/api.ts';
import type { SteadyClock } from '../system/clock.ts';
import type { StoredBans } from './keys.ts';

/** What the three rate-limit headers report (docs/service.md 8.3). `resetAt` is in milliseconds since the epoch. */
export type RateLimitWindow = { limit: number; remaining: number; resetAt: number };

type RateLimitWindows = Readonly<Record<'minute' | 'day', RateLimitWindow>>;

/**
 * The decision about a request. If the caller is banned, `banned` is set, and `window` describes the ban. Otherwise,
 * `window` is the one of `windows` with fewer requests left, or the day. `now` is the limiter's time of the decision.
 * `retryAt` is set if the request is (or, for `peek`, would be) rejected. Times are in milliseconds since the epoch.
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
  /** How many rejected requests within a minute ban a key, except those that D9 does not count; 0 turns bans off. */
  after: number;
  /** How long a ban lasts. */
  milliseconds: number;
};

/** How many bans this process has begun, and how many callers are banned now. */
export type BanCounts = { begun: number; active: number };

/**
 * Counts requests per caller, in fixed windows that are aligned to the UTC minute and day (D8).
 *
 * @throws StoreUnavailableError from every method if the database cannot be used for now, StoreUnwritableError if its
 * disk is full, StoreError if it was closed
 */
export interface Limiter {
  /** Counts one request, or rejects it. A rejected request is not counted (D8), but can cause a ban (D9). */
  take(caller: string, quota: Quota): RateLimitDecision | Promise<RateLimitDecision>;
  /** The decision that `take` would make now, without counting a request. */
  peek(caller: string, quota: Quota): RateLimitDecision | Promise<RateLimitDecision>;
  /** The current windows and bans of `callers`, in the order of `callers`. */
  usage(callers: readonly string[]): Promise<Usage[]>;
  /** If a caller is banned, ends the ban and forgets the rejected requests. */
  liftBan(caller: string): Promise<void>;
}

/** The counted requests of a caller in the current windows. The ends are in milliseconds since the epoch. */
type WindowCounts = {
  minute: { endsAt: number; used: number };
  day: { endsAt: number; used: number };
};

/** What is counted for a caller. `bannedUntil` is in milliseconds since the epoch; undefined if there is no ban. */
export type Usage = WindowCounts & { bannedUntil: number | undefined };

/** The decision about the next request of a caller, before it is counted. */
export function nextDecision(
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

/** Subtracts allowed requests from both windows of a decision. So `window` stays the one with fewer requests left. */
export function subtractRequests({ windows: { minute, day } }: RateLimitDecision, requests: number): void {
  minute.remaining -= requests;
  day.remaining -= requests;
}

/** The decision about a banned caller, who has no requests left until the ban ends. */
function bannedDecision({ window, windows, now }: RateLimitDecision, until: number): RateLimitDecision {
  const banWindow = { limit: window.limit, remaining: 0, resetAt: until };
  return { window: banWindow, windows, now, retryAt: until, banned: true };
}

/** What is counted for a caller, and its requests that exceeded a quota. Times are in milliseconds since the epoch. */
type CallerState = Usage & {
  /** The end of the window that was exceeded last, and the time of the first request that exceeded it. */
  refusedWindowEnd: number;
  firstRefusedAt: number;
  /** The times of the requests that count toward a ban until they are a minute old. */
  refusals: readonly number[];
};

const SECOND = 1_000;
const MINUTE = 60_000;
const DAY = 86_400_000;
/**
 * How far `now` and `elapsed` of the clock may drift apart, in milliseconds, before that counts as a step of the system
 * time. They are read one after the other, and have different resolutions.
 */
const CLOCK_TOLERANCE = 100;

/** New callers share this array, because there can be many callers. */
const NO_REFUSALS: readonly number[] = [];

type BanOptions = {
  /** By default, no caller is banned. */
  rule?: BanRule;
  /** Bans of an earlier run. */
  stored?: StoredBans;
  /**
   * Stores all bans after one has begun, was lifted or got another end. Must not reject. Returns whether the bans were
   * stored. If not, it is called again with the next change, or by `finishSaving`.
   */
  save?(bans: StoredBans): Promise<boolean>;
};

export type MemoryLimiter = ReturnType<typeof createMemoryLimiter>;

/** Counts requests in memory, until the process ends. `take` returns a promise only if it stores a ban. */
export function createMemoryLimiter(
  clock: SteadyClock,
  { rule = { after: 0, milliseconds: 0 }, stored = new Map(), save = async () => true }: BanOptions = {},
) {
  const callers = new Map<string, CallerState>();
  let sweptAt = 0;
  let begun = 0;
  let lastSave = Promise.resolve();
  let isSaved = true;
  /** How far `now` is ahead of `elapsed`, in milliseconds. */
  let lead = clock.now() - clock.elapsed();

  /** Returns the current time. If the clock was set back, running windows and bans keep the time that they have left. */
  function currentTime(): number {
    const before = clock.elapsed();
    const now = clock.now();
    if (now - before < lead - CLOCK_TOLERANCE) {
      moveTimes(now - before - lead);
      lead = now - before;
    } else if (now - before > lead + CLOCK_TOLERANCE) {
      // Either the clock was set forward, or the process was suspended between the two readings. Read `elapsed` again,
      // because a suspension must not increase `lead`.
      lead = Math.max(lead, now - clock.elapsed());
    }
    return now;
  }

  /** Adds `step`, in milliseconds, to all times of callers. */
  function moveTimes(step: number): void {
    for (const caller of callers.values()) {
      caller.minute.endsAt += step;
      caller.day.endsAt += step;
      if (caller.bannedUntil !== undefined) caller.bannedUntil += step;
      caller.refusedWindowEnd += step;
      caller.firstRefusedAt += step;
      caller.refusals = caller.refusals.map((at) => at + step);
    }
    sweptAt += step;
    if (activeBans().size > 0) saveBans();
  }

  function activeBans(): Map<string, number> {
    const now = clock.now();
    const bans = new Map<string, number>();
    for (const [name, { bannedUntil = 0 }] of callers) if (bannedUntil > now) bans.set(name, bannedUntil);
    return bans;
  }

  function saveBans(): Promise<void> {
    const active = activeBans();
    // One save at a time, so that an older list cannot overwrite a newer one.
    lastSave = lastSave.then(async () => {
      isSaved = await save(active);
    });
    return lastSave;
  }

  function addCaller(name: string): CallerState {
    const caller: CallerState = {
      minute: { endsAt: 0, used: 0 },
      day: { endsAt: 0, used: 0 },
      bannedUntil: undefined,
      refusedWindowEnd: 0,
      firstRefusedAt: 0,
      refusals: NO_REFUSALS,
    };
    callers.set(name, caller);
    return caller;
  }

  /** Returns a caller with its counts and ban at `now`. Replaces windows that are over, and adds an unknown caller. */
  function updateCaller(name: string, now: number): CallerState {
    // Drop expired counts at most once a minute, so that addresses of anonymous callers do not accumulate.
    if (now - sweptAt >= MINUTE) {
      sweptAt = now;
      for (const [other, caller] of callers) if (isExpired(caller, now)) callers.delete(other);
    }
    const caller = callers.get(name) ?? addCaller(name);
    if (now >= caller.minute.endsAt) startWindow(caller.minute, now, MINUTE);
    if (now >= caller.day.endsAt) startWindow(caller.day, now, DAY);
    if (caller.bannedUntil !== undefined && now >= caller.bannedUntil) caller.bannedUntil = undefined;
    return caller;
  }

  function usageOf(name: string, now: number): Usage {
    const { minute, day, bannedUntil } = updateCaller(name, now);
    return { minute: { ...minute }, day: { ...day }, bannedUntil };
  }

  /** Rejects a request, which may begin a ban (docs/service.md 8.4, D9). */
  function refuse(
    caller: CallerState,
    decision: RateLimitDecision,
  ): RateLimitDecision | Promise<RateLimitDecision> {
    const { now, window } = decision;
    const recent = caller.refusals.filter((at) => now - at < MINUTE);
    if (caller.refusedWindowEnd !== window.resetAt) {
      caller.refusedWindowEnd = window.resetAt;
      caller.firstRefusedAt = now;
      caller.refusals = recent;
      return decision;
    }
    // Requests within a second after the first rejected one of a window do not count toward a ban, because the client
    // may have sent them before it received the 429.
    if (now - caller.firstRefusedAt < SECOND) return decision;
    caller.refusals = [...recent, now];
    if (rule.after === 0 || caller.refusals.length < rule.after) return decision;
    // Keep `firstRefusedAt`, so that requests after the ban count immediately if their window is still the same.
    caller.refusals = NO_REFUSALS;
    // If the clock were read again, Retry-After could be a second longer than the ban.
    const until = now + rule.milliseconds;
    caller.bannedUntil = until;
    begun++;
    return saveBans().then(() => bannedDecision(decision, until));
  }

  // No ban lasts longer than `rule.milliseconds` from now. A longer one was stored with another rule, or while the
  // clock was ahead.
  const latestEnd = clock.now() + rule.milliseconds;
  for (const [name, until] of rule.after === 0 ? [] : stored)
    addCaller(name).bannedUntil = Math.min(until, latestEnd);
  // Save the shortened bans. Otherwise, every restart would extend them again.
  if ([...stored.values()].some((until) => rule.after > 0 && until > latestEnd)) saveBans();

  return {
    take(name: string, quota: Quota): RateLimitDecision | Promise<RateLimitDecision> {
      const now = currentTime();
      const caller = updateCaller(name, now);
      const decision = nextDecision(caller, quota, caller.bannedUntil, now);
      if (decision.banned) return decision;
      if (decision.retryAt !== undefined) return refuse(caller, decision);
      caller.minute.used++;
      if (Number.isFinite(quota.perDay)) caller.day.used++;
      subtractRequests(decision, 1);
      return decision;
    },
    peek(name: string, quota: Quota): RateLimitDecision {
      const now = currentTime();
      const usage = usageOf(name, now);
      return nextDecision(usage, quota, usage.bannedUntil, now);
    },
    async usage(names: readonly string[]): Promise<Usage[]> {
      const now = currentTime();
      return names.map((name) => usageOf(name, now));
    },
    /** Resolves when the change is saved, or cannot be saved for now. */
    async liftBan(name: string): Promise<void> {
      const caller = callers.get(name);
      if (caller?.bannedUntil === undefined) return;
      Object.assign(caller, { bannedUntil: undefined, refusedWindowEnd: 0, refusals: NO_REFUSALS });
      await saveBans();
    },
    /** Forgets all windows, and ends all bans. */
    async clear(): Promise<void> {
      const isStored = activeBans().size > 0 || !isSaved;
      callers.clear();
      if (isStored) await saveBans();
    },
    banCounts: (): BanCounts => ({ begun, active: activeBans().size }),
    /** Resolves when all changes of bans are saved, or even a second attempt has failed. */
    async finishSaving(): Promise<void> {
      await lastSave;
      if (!isSaved) await saveBans();
    },
  } satisfies Limiter & Record<string, unknown>;
}

/** Whether the state can be deleted, because it means the same as that of a caller that has never sent a request. */
const isExpired = ({ minute, day, bannedUntil = 0, refusals }: CallerState, now: number): boolean =>
  now >= minute.endsAt &&
  (day.used === 0 || now >= day.endsAt) &&
  now >= bannedUntil &&
  refusals.every((at) => now - at >= MINUTE);

/** Restarts a counter with the UTC minute or day of `now`. */
function startWindow(counter: WindowCounts['minute'], now: number, length: number): void {
  counter.endsAt = now - (now % length) + length;
  counter.used = 0;
}
