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
export type WindowCounts = {
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
export function bannedDecision(
  { window, windows, now }: RateLimitDecision,
  until: number,
): RateLimitDecision {
  const banWindow = { limit: window.limit, remaining: 0, resetAt: until };
  return { window: banWindow, windows, now, retryAt: until, banned: true };
}
