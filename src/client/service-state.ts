import { createHash } from 'node:crypto';
import type { Clock } from '../contract/clock.ts';
import type { SharedFlags } from './shared-flags.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;

/** The start of a flag's name, before a day. The flag expires, because another service may later run at the origin. */
const SUPPORTS_IDEMPOTENCY = 'honours-idempotency-key-';

/** Longer cool-downs are shortened to this. It exceeds a day, the longest rate-limit window of our service. */
const MAX_COOL_DOWN_MS = 25 * 3_600_000;

/** The clocks of machines that share a state directory may differ by this time. */
const CLOCK_TOLERANCE_MS = MINUTE;

export type ServiceState = ReturnType<typeof createServiceState>;

/**
 * What this user's processes have learned about a service from its responses, stored as flags. A group of flags is
 * named by a hash of the origin, or of the origin and the API key, so that no name reveals a key.
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
  /** The day on which this process last recorded support for Idempotency-Key, so that it does so once a day. */
  let recordedOn: string | undefined;
  return {
    coolDown,
    /**
     * Whether a request that ignores the cool-down may be sent now. During a cool-down, the result is true at most once a
     * minute across processes, so that checking whether the cool-down still applies cannot get the API key banned.
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
    /** True only for the first call per operation and UTC day, in all processes, so that a notice is shown once a day. */
    claimDailyNotice: (operation: string): boolean => replace(`${operation}-told-`, formatDay(clock.now())),
  };

  /** Replaces the flags with this prefix by one for `day`, if given. Returns true if that flag is new. */
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
 * A cool-down that this user's processes share. Each deadline is a flag in `group`. The flag's name is the time at which
 * it was recorded and the deadline, in milliseconds since the epoch. The latest deadline counts, so processes can add
 * deadlines without a lock. A deadline is ignored if it was recorded while the clock was ahead of the present time.
 */
export function createCoolDown(flags: SharedFlags, group: string, clock: Clock) {
  /** The deadline in a flag's name; 0 if the deadline has passed, or if the name is not valid. */
  function deadlineOf(name: string): number {
    const [, recordedAt = 0, deadline = 0] = /^(\d{1,15})-(\d{1,15})$/.exec(name)?.map(Number) ?? [];
    const now = clock.now();
    const isValid = recordedAt <= now + CLOCK_TOLERANCE_MS && deadline <= recordedAt + MAX_COOL_DOWN_MS;
    return isValid && deadline > now ? deadline : 0;
  }
  /** The latest deadline; 0 if there is none. */
  const until = (): number =>
    flags
      .list(group)
      .map(deadlineOf)
      .reduce((latest, deadline) => Math.max(latest, deadline), 0);
  return {
    until,
    /** Adds a deadline. An earlier deadline never shortens the cool-down. */
    extend(deadline: number): void {
      for (const name of flags.list(group)) if (deadlineOf(name) === 0) flags.remove(group, name);
      const now = clock.now();
      const latest = Math.ceil(Math.min(deadline, now + MAX_COOL_DOWN_MS));
      if (latest > Math.max(now, until())) flags.set(group, `${now}-${latest}`);
    },
    clear(): void {
      for (const name of flags.list(group)) flags.remove(group, name);
    },
  };
}

const formatDay = (time: number): string => new Date(time).toISOString().slice(0, 10);

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
