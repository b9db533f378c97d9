import type { Clock } from '../contract/clock.ts';
import type { SharedFlags } from './shared-flags.ts';

/** The longest rate-limit window is a day. A later deadline was written with a wrong clock and is ignored. */
const MAX_AHEAD_MS = 25 * 3_600_000;

/**
 * The time until which no process of this user sends a request with the same key to the same origin. Times are in
 * milliseconds since the epoch.
 */
export type CoolDown = {
  /** The latest deadline; 0 if there is none. */
  until(): number;
  /** Adds a deadline. An earlier one never shortens the cool-down. */
  extend(deadline: number): void;
  clear(): void;
};

/** Stores each deadline as the name of a flag. The largest one counts, so that processes can add theirs without a lock. */
export function createCoolDown(flags: SharedFlags, group: string, clock: Clock): CoolDown {
  const isCurrent = (deadline: number): boolean =>
    deadline > clock.now() && deadline <= clock.now() + MAX_AHEAD_MS;
  return {
    until() {
      const deadlines = flags.list(group).map(parseDeadline).filter(isCurrent);
      return deadlines.reduce((latest, deadline) => Math.max(latest, deadline), 0);
    },
    extend(deadline) {
      for (const name of flags.list(group)) if (!isCurrent(parseDeadline(name))) flags.remove(group, name);
      const latest = Math.min(deadline, clock.now() + MAX_AHEAD_MS);
      if (latest > clock.now()) flags.set(group, String(Math.ceil(latest)));
    },
    clear() {
      for (const name of flags.list(group)) flags.remove(group, name);
    },
  };
}

/** Names that are not deadlines count as expired. */
const parseDeadline = (name: string): number => (/^\d{1,15}$/.test(name) ? Number(name) : 0);
