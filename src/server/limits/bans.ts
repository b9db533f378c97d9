import type { Clock } from '../../contract/clock.ts';

/** When a key is banned, and for how long (design D9). */
export type BanRule = {
  /** The number of requests sent on after a 429, within a minute, that bans a key; 0 bans nobody. */
  after: number;
  milliseconds: number;
};

/** What is known of a caller's refused requests: instants in milliseconds since the epoch. */
export type Refusals = {
  /** The end of the window whose limit was exceeded last, and its first refusal. */
  resetAt: number;
  firstAt: number;
  /** The refusals of the last minute that count. */
  counted: readonly number[];
};

const SECOND = 1_000;
const MINUTE = 60_000;

/**
 * Adds a refused request. Those that arrive within a second of their window's first refusal do not count: they may
 * have been on their way already.
 */
export function addRefusal(before: Refusals | undefined, resetAt: number, now: number): Refusals {
  const recent = (before?.counted ?? []).filter((at) => now - at < MINUTE);
  if (before?.resetAt !== resetAt) return { resetAt, firstAt: now, counted: recent };
  const counts = now - before.firstAt >= SECOND;
  return { ...before, counted: counts ? [...recent, now] : recent };
}

/** Bans callers that send on after a 429. */
export interface Bans {
  /** The end of the caller's ban; undefined where there is none. */
  until(caller: string): number | undefined;
  /** Tells of a refused request; the end of the ban that it brings, if it does. */
  refused(caller: string, resetAt: number): Promise<number | undefined>;
}

/** Makes the bans outlive the process; does not fail. By caller, their ends in milliseconds since the epoch. */
export type SaveBans = (bans: ReadonlyMap<string, number>) => Promise<void>;

/** `known` are the bans of an earlier run; `save` is called with each that begins. */
export function createBans(
  { after, milliseconds }: BanRule,
  clock: Clock,
  known: ReadonlyMap<string, number> = new Map(),
  save: SaveBans = async () => {},
): Bans {
  const banned = new Map(after === 0 ? [] : known);
  const refusals = new Map<string, Refusals>();
  let saved = Promise.resolve();

  return {
    until(caller) {
      const until = banned.get(caller);
      if (until === undefined || until > clock.now()) return until;
      banned.delete(caller);
      return undefined;
    },
    async refused(caller, resetAt) {
      const now = clock.now();
      const known = addRefusal(refusals.get(caller), resetAt, now);
      if (after === 0 || known.counted.length < after) {
        refusals.set(caller, known);
        return undefined;
      }
      // The window's first refusal stays it: what is sent on behind the ban counts at once.
      refusals.set(caller, { ...known, counted: [] });
      const until = now + milliseconds;
      banned.set(caller, until);
      const living = new Map([...banned].filter(([, end]) => end > now));
      // One after the other: an older list must not take the place of a newer one.
      saved = saved.then(() => save(living));
      await saved;
      return until;
    },
  };
}
