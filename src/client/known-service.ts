import { createHash } from 'node:crypto';
import type { Clock } from '../contract/clock.ts';
import { type CoolDown, createCoolDown } from './cool-down.ts';
import type { Marks } from './marks.ts';

/** What is known of a service from earlier answers, those to other processes too. */
export type KnownService = {
  coolDown: CoolDown;
  /** Whether it has shown that it honours Idempotency-Key (design D10). */
  honoursIdempotency(): boolean;
  noteIdempotency(isHonoured: boolean): void;
  /** True the first time on a day (UTC): something is told once a day. */
  isNewToday(what: string): boolean;
};

const IDEMPOTENCY = 'honours-idempotency-key';

/** No group's name lets anybody read a key: it is a hash of the origin, or of the origin and the key. */
export function createKnownService(
  { baseUrl, key }: { baseUrl: string; key: string },
  marks: Marks,
  clock: Clock,
): KnownService {
  const { origin } = new URL(baseUrl);
  const service = `service-${sha256(origin)}`;
  return {
    coolDown: createCoolDown(marks, `cool-down-${sha256(`${origin}\n${key}`)}`, clock),
    honoursIdempotency: () => marks.list(service).includes(IDEMPOTENCY),
    noteIdempotency(isHonoured) {
      if (isHonoured === marks.list(service).includes(IDEMPOTENCY)) return;
      if (isHonoured) marks.put(service, IDEMPOTENCY);
      else marks.remove(service, IDEMPOTENCY);
    },
    isNewToday(what) {
      const names = marks.list(service).filter((name) => name.startsWith(`${what}-told-`));
      const today = `${what}-told-${new Date(clock.now()).toISOString().slice(0, 10)}`;
      if (names.includes(today)) return false;
      for (const name of names) marks.remove(service, name);
      marks.put(service, today);
      return true;
    },
  };
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
