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

type TrackedWindow = SpentWindow & {
  /** In milliseconds since the epoch. */
  end: number;
  /** The requests that the command had sent before the window began. */
  sentBefore: number;
  /** Whether the user has agreed that the command spends all of the window. */
  isAccepted: boolean;
};

/** Whether the next request would spend more than half of the window. */
const isHalfSpent = ({ spent, available }: SpentWindow): boolean => 2 * (spent + 1) > available;

/** Counts what a command spends of each rate-limit window, so that it can ask before it spends more than half of one. */
export function createSpending() {
  const windows = new Map<string, TrackedWindow>();
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
          Object.assign(known, { limit, spent: requests - known.sentBefore });
          continue;
        }
        windows.set(key, {
          limit,
          available: limit.remaining + 1,
          spent: 1,
          // The first reported end counts, because the ends that further responses report may differ slightly.
          end: limit.reset ?? now,
          sentBefore: requests - 1,
          isAccepted: known?.isAccepted === true,
        });
      }
    },
    /** The windows of which the next request would spend more than half, unless the user has accepted this. */
    exceeded: (): SpentWindow[] =>
      [...windows.values()].filter((window) => !window.isAccepted && isHalfSpent(window)),
    /** Accepts that the command spends all of the windows that `exceeded` returns now, and of those that follow them. */
    accept(): void {
      for (const window of windows.values()) if (isHalfSpent(window)) window.isAccepted = true;
    },
  };
}
