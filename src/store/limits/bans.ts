import type { Clock } from '../../contract/clock.ts';
import type { BanCounts, BanRule } from './limiter.ts';

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

export type BanTracker = ReturnType<typeof createBanTracker>;

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
