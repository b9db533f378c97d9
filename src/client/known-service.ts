import { createHash } from 'node:crypto';
import type { Clock } from '../contract/clock.ts';
import { type CoolDown, createCoolDown } from './cool-down.ts';
import type { Marks } from './marks.ts';

/** What is known of a service from earlier answers, those to other processes too. */
export type KnownService = {
  coolDown: CoolDown;
  /**
   * Whether it may be asked although it wants to be left alone: once a minute, by all processes together. Who looks again
   * and again must not be banned for that.
   */
  mayProbe(): boolean;
  /** Whether it has shown that it honours Idempotency-Key (design D10). */
  honoursIdempotency(): boolean;
  noteIdempotency(isHonoured: boolean): void;
  /** True the first time on a day (UTC): something is told once a day. */
  isNewToday(what: string): boolean;
};

/** With the day (UTC): another service may come to stand at the same origin. */
const HONOURS = 'honours-idempotency-key-';
const MINUTE = 60_000;
const DAY = 86_400_000;

/** No group's name lets anybody read a key: it is a hash of the origin, or of the origin and the key. */
export function createKnownService(
  { baseUrl, key }: { baseUrl: string; key: string },
  marks: Marks,
  clock: Clock,
): KnownService {
  const { origin } = new URL(baseUrl);
  const service = `service-${sha256(origin)}`;
  const shownOn = () =>
    marks
      .list(service)
      .filter((name) => name.startsWith(HONOURS))
      .map((name) => name.slice(HONOURS.length));
  /** The day on which this process has noted that the key is honoured: a list of many pages looks once. */
  let honouredOn: number | undefined;
  const caller = sha256(`${origin}\n${key}`);
  const coolDown = createCoolDown(marks, `cool-down-${caller}`, clock);
  const probes = createCoolDown(marks, `probes-${caller}`, clock);
  return {
    coolDown,
    mayProbe() {
      if (coolDown.until() <= clock.now()) return true;
      if (probes.until() > clock.now()) return false;
      probes.note(clock.now() + MINUTE);
      return true;
    },
    honoursIdempotency: () =>
      shownOn().some((day) => day === dayOf(clock.now()) || day === dayOf(clock.now() - DAY)),
    noteIdempotency(isHonoured) {
      const now = clock.now();
      const day = Math.floor(now / DAY);
      if (isHonoured && honouredOn === day) return;
      honouredOn = isHonoured ? day : undefined;
      const today = dayOf(now);
      const days = shownOn();
      for (const each of days) if (!isHonoured || each !== today) marks.remove(service, HONOURS + each);
      if (isHonoured && !days.includes(today)) marks.put(service, HONOURS + today);
    },
    isNewToday(what) {
      const names = marks.list(service).filter((name) => name.startsWith(`${what}-told-`));
      const today = `${what}-told-${dayOf(clock.now())}`;
      if (names.includes(today)) return false;
      for (const name of names) marks.remove(service, name);
      marks.put(service, today);
      return true;
    },
  };
}

const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10);

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
