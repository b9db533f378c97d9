import { createHash } from 'node:crypto';
import type { Clock } from '../contract/clock.ts';
import type { SharedFlags } from './shared-flags.ts';

/** The name of a flag starts with this and ends with a day, because another service may later run at the same origin. */
const SUPPORTS_IDEMPOTENCY = 'honours-idempotency-key-';
const MINUTE = 60_000;
const DAY = 86_400_000;

/** The longest rate-limit window is a day. A later deadline was written with a wrong clock and is ignored. */
const MAX_AHEAD_MS = 25 * 3_600_000;

export type ServiceState = ReturnType<typeof createServiceState>;

/**
 * What this user's processes have learned about a service from its responses. It is stored as flags in groups named by a
 * hash of the origin and key, or of the origin, so that no name reveals a key.
 */
export function createServiceState(
  { baseUrl, key }: { baseUrl: string; key: string },
  flags: SharedFlags,
  clock: Clock,
) {
  const { origin } = new URL(baseUrl);
  const service = `service-${sha256(origin)}`;
  const caller = sha256(`${origin}\n${key}`);
  const coolDown = createCoolDown(flags, `cool-down-${caller}`, clock);
  const probes = createCoolDown(flags, `probes-${caller}`, clock);
  /** When this process last recorded idempotency support. Avoids reading the directory after each page of a list. */
  let recordedOn: string | undefined;
  return {
    coolDown,
    /**
     * Whether a request may be sent despite the cool-down. True at most once a minute across processes, so that checking
     * whether the cool-down still applies cannot get the key banned.
     */
    tryAcquireProbe(): boolean {
      if (coolDown.until() <= clock.now()) return true;
      if (probes.until() > clock.now()) return false;
      probes.extend(clock.now() + MINUTE);
      return true;
    },
    /** Whether a response of today or yesterday (UTC) has shown support for Idempotency-Key (docs/service.md, D10). */
    supportsIdempotency(): boolean {
      const names = flags.list(service);
      return [clock.now(), clock.now() - DAY].some((time) =>
        names.includes(SUPPORTS_IDEMPOTENCY + formatDay(time)),
      );
    },
    recordIdempotencySupport(isSupported: boolean): void {
      const today = isSupported ? formatDay(clock.now()) : undefined;
      if (isSupported && recordedOn === today) return;
      recordedOn = today;
      replace(SUPPORTS_IDEMPOTENCY, today);
    },
    /** True once per operation and day (UTC) across processes, for notices that are shown daily. */
    claimDailyNotice: (operation: string): boolean => replace(`${operation}-told-`, formatDay(clock.now())),
  };

  /** Replaces the flags with this prefix by one for `day`, if given. Returns false if that flag was set already. */
  function replace(prefix: string, day: string | undefined): boolean {
    const name = day && prefix + day;
    const existing = flags.list(service).filter((each) => each.startsWith(prefix));
    for (const each of existing) if (each !== name) flags.remove(service, each);
    if (name === undefined || existing.includes(name)) return false;
    flags.set(service, name);
    return true;
  }
}

/**
 * The time until which no process of this user sends a request with the same key to the same origin. Times are in
 * milliseconds since the epoch. Each deadline is the name of a flag, and the largest one counts, so that processes can
 * add theirs without a lock.
 */
export function createCoolDown(flags: SharedFlags, group: string, clock: Clock) {
  const isCurrent = (deadline: number): boolean =>
    deadline > clock.now() && deadline <= clock.now() + MAX_AHEAD_MS;
  return {
    /** The latest deadline; 0 if there is none. */
    until(): number {
      const deadlines = flags.list(group).map(parseDeadline).filter(isCurrent);
      return deadlines.reduce((latest, deadline) => Math.max(latest, deadline), 0);
    },
    /** Adds a deadline. An earlier one never shortens the cool-down. */
    extend(deadline: number): void {
      for (const name of flags.list(group)) if (!isCurrent(parseDeadline(name))) flags.remove(group, name);
      const latest = Math.min(deadline, clock.now() + MAX_AHEAD_MS);
      if (latest > clock.now()) flags.set(group, String(Math.ceil(latest)));
    },
    clear(): void {
      for (const name of flags.list(group)) flags.remove(group, name);
    },
  };
}

/** Names that are not deadlines become 0, which has expired. */
const parseDeadline = (name: string): number => (/^\d{1,15}$/.test(name) ? Number(name) : 0);

const formatDay = (time: number): string => new Date(time).toISOString().slice(0, 10);

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
