import { createHash } from 'node:crypto';
import type { Clock } from '../contract/clock.ts';
import { type CoolDown, createCoolDown } from './cool-down.ts';
import type { SharedFlags } from './shared-flags.ts';

/** What this user's processes have learned about a service from its responses. */
export type ServiceState = {
  coolDown: CoolDown;
  /**
   * Whether a request may be sent despite the cool-down. True at most once a minute across processes, so that checking
   * whether the cool-down still applies cannot get the key banned.
   */
  tryAcquireProbe(): boolean;
  /** Whether a response of today or yesterday (UTC) has shown that it supports Idempotency-Key (docs/service.md, D10). */
  supportsIdempotency(): boolean;
  recordIdempotencySupport(isSupported: boolean): void;
  /** True once per operation and day (UTC) across processes, for notices that are shown daily. */
  claimDailyNotice(operation: string): boolean;
};

/** Followed by the day, because another service may later run at the same origin. */
const SUPPORTS_IDEMPOTENCY = 'honours-idempotency-key-';
const MINUTE = 60_000;
const DAY = 86_400_000;

/** The flags are in groups named by a hash of the origin and key, or of the origin, so that no name reveals a key. */
export function createServiceState(
  { baseUrl, key }: { baseUrl: string; key: string },
  flags: SharedFlags,
  clock: Clock,
): ServiceState {
  const { origin } = new URL(baseUrl);
  const service = `service-${sha256(origin)}`;
  const caller = sha256(`${origin}\n${key}`);
  const coolDown = createCoolDown(flags, `cool-down-${caller}`, clock);
  const probes = createCoolDown(flags, `probes-${caller}`, clock);
  const list = (prefix: string) => flags.list(service).filter((name) => name.startsWith(prefix));
  /** When this process last recorded idempotency support. Avoids reading the directory after each page of a list. */
  let recordedOn: string | undefined;
  return {
    coolDown,
    tryAcquireProbe() {
      if (coolDown.until() <= clock.now()) return true;
      if (probes.until() > clock.now()) return false;
      probes.extend(clock.now() + MINUTE);
      return true;
    },
    supportsIdempotency() {
      const days = [formatDay(clock.now()), formatDay(clock.now() - DAY)];
      const names = list(SUPPORTS_IDEMPOTENCY);
      return days.some((day) => names.includes(SUPPORTS_IDEMPOTENCY + day));
    },
    recordIdempotencySupport(isSupported) {
      const today = isSupported ? formatDay(clock.now()) : undefined;
      if (isSupported && recordedOn === today) return;
      recordedOn = today;
      replace(list(SUPPORTS_IDEMPOTENCY), today === undefined ? undefined : SUPPORTS_IDEMPOTENCY + today);
    },
    claimDailyNotice(operation) {
      const prefix = `${operation}-told-`;
      return replace(list(prefix), prefix + formatDay(clock.now()));
    },
  };

  /** Removes the flags except `name`, and sets `name`, if any. Returns false if it was set already. */
  function replace(existing: string[], name: string | undefined): boolean {
    for (const each of existing) if (each !== name) flags.remove(service, each);
    if (name === undefined || existing.includes(name)) return false;
    flags.set(service, name);
    return true;
  }
}

const formatDay = (time: number): string => new Date(time).toISOString().slice(0, 10);

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
