import type { OpenRateLimit } from '../../client/rate-limit.ts';

/** What a command has spent of a rate-limit window. */
export type SpentWindow = {
  /** The window as the latest response reported it. */
  limit: OpenRateLimit;
  /** The requests that were left in the window before the first request of the command. */
  available: number;
  /** The requests that the command has sent in the window. */
  spent: number;
};

/** Counts what a command spends of each rate-limit window, so that it can ask before it spends more than half of one. */
export function createSpending() {
  const windows = new Map<string, SpentWindow & { end: number; before: number; isAccepted: boolean }>();
  return {
    /**
     * Records the windows that a response reports.
     *
     * @param requests the number of requests that the command has sent so far, including the one of this response
     */
    record(limits: readonly OpenRateLimit[], requests: number, now: number): void {
      for (const limit of limits) {
        const key = limit.name ?? String(limit.limit);
        const known = windows.get(key);
        // The reported end may be missing or wrong, so that fewer remaining requests also show that the window is the same.
        if (known !== undefined && (now < known.end || limit.remaining < known.limit.remaining)) {
          Object.assign(known, { limit, spent: requests - known.before });
          continue;
        }
        // The response belongs to a new window, whose end stays the same, although the reported end may differ slightly.
        const window = { limit, available: limit.remaining + 1, spent: 1, end: limit.reset ?? now };
        windows.set(key, { ...window, before: requests - 1, isAccepted: known?.isAccepted === true });
      }
    },
    /** The windows of which the next request would spend more than half, unless the user has accepted this. */
    exceeded: (): SpentWindow[] =>
      [...windows.values()].filter(
        ({ spent, available, isAccepted }) => !isAccepted && 2 * (spent + 1) > available,
      ),
    /** Records that the command may spend all of the windows that `exceeded` returns now, and of their successors. */
    accept(): void {
      for (const window of windows.values()) {
        if (2 * (window.spent + 1) > window.available) window.isAccepted = true;
      }
    },
  };
}
