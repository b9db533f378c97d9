import { createTimeFormatter, formatDuration } from '../../system/time-text.ts';

const DAY = 86_400_000;

/** A time such as `14:03:00 CET`, with the date unless it is today. `instant` and `now` are in ms; `zone` is an IANA name. */
export function formatTime(instant: number, now: number, zone: string): string {
  const format = createTimeFormatter(zone);
  const [date = '', ...time] = format(instant).split(' ');
  return format(now).startsWith(date) ? time.join(' ') : [date, ...time].join(' ');
}

/** A rate limit that ends more than this many milliseconds from now is a mistake of the service. */
const MAX_DEADLINE = 1_000 * DAY;

/** Formats a deadline, for example as `until 14:03:00 UTC (in 42 s)`. Undefined after `MAX_DEADLINE`. */
export function formatDeadline(instant: number, now: number, zone: string): string | undefined {
  const left = instant - now;
  if (left > MAX_DEADLINE) return undefined;
  return `until ${formatTime(instant, now, zone)}${left > 0 ? ` (in ${formatDuration(left)})` : ''}`;
}

/**
 * Converts a date and time in a time zone to an instant. `wallTime` is the instant at which clocks in UTC show them. If
 * clocks in the zone show them twice, the result is the first instant. If these clocks skip 2:30, because they are set
 * forward from 2:00 to 3:00, the result is the instant at which they show 3:30.
 */
export function instantOf(wallTime: number, zone: string): number {
  const wallTimeAt = wallClock(zone);
  // The offset changes at most once from the day before to the day after, so one of the two offsets is right.
  const [before, after] = [wallTime - DAY, wallTime + DAY].map((instant) => wallTimeAt(instant) - instant);
  const earlier = wallTime - Math.max(before ?? 0, after ?? 0);
  return wallTimeAt(earlier) === wallTime ? earlier : wallTime - Math.min(before ?? 0, after ?? 0);
}

/** The start of the day that is `days` days after the day of `now`, in a time zone. */
export function startOfDay(now: number, days: number, zone: string): number {
  return instantOf((Math.floor(wallClock(zone)(now) / DAY) + days) * DAY, zone);
}

/** Returns the reverse of `instantOf`: a function that converts an instant to the `wallTime` that `zone` has then. */
function wallClock(zone: string): (instant: number) => number {
  const format = createTimeFormatter(zone);
  return (instant) => {
    const [date, time] = format(instant).split(' ');
    return Date.parse(`${date}T${time}Z`) + (((instant % 1_000) + 1_000) % 1_000);
  };
}
