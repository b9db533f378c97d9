import type { Clock } from '../contract/clock.ts';
import type { Marks } from './marks.ts';

const HOUR = 3_600_000;

/** The longest window is a day. A deadline further ahead comes from a clock that was wrong, and would lock out for ever. */
const FURTHEST = 25 * HOUR;

/**
 * Until when no process of this user sends anything with one key to one origin (design 5). Times are milliseconds
 * since the epoch.
 */
export type CoolDown = {
  /** The latest deadline; one in the past where nothing stands in the way. */
  until(): number;
  note(deadline: number): void;
  clear(): void;
};

/** Each deadline is a mark: readers take the largest, whoever writes takes away what is over. */
export function createCoolDown(marks: Marks, group: string, clock: Clock): CoolDown {
  const isInForce = (deadline: number): boolean =>
    deadline > clock.now() && deadline <= clock.now() + FURTHEST;
  const deadlines = () => marks.list(group).map((name) => ({ name, deadline: deadlineOf(name) }));
  return {
    until: () =>
      deadlines().reduce(
        (latest, { deadline }) => (isInForce(deadline) ? Math.max(latest, deadline) : latest),
        0,
      ),
    note(deadline) {
      for (const each of deadlines()) if (!isInForce(each.deadline)) marks.remove(group, each.name);
      const latest = Math.min(deadline, clock.now() + FURTHEST);
      if (latest > clock.now()) marks.put(group, String(Math.ceil(latest)));
    },
    clear() {
      for (const { name } of deadlines()) marks.remove(group, name);
    },
  };
}

/** What is no deadline has passed. */
const deadlineOf = (name: string): number => (/^\d{1,15}$/.test(name) ? Number(name) : 0);
