const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A length of time as a person says it, rounded up to the second: `42 s`, `6 min 33 s`, `3 h 5 min`, `2 days 4 h`. */
export function durationText(milliseconds: number): string {
  const left = Math.ceil(milliseconds / SECOND) * SECOND;
  if (left < MINUTE) return `${left / SECOND} s`;
  if (left < HOUR) return two(left, [MINUTE, 'min'], [SECOND, 's']);
  if (left < DAY) return two(left, [HOUR, 'h'], [MINUTE, 'min']);
  return two(left, [DAY, left < 2 * DAY ? 'day' : 'days'], [HOUR, 'h']);
}

function two(left: number, [size, name]: [number, string], [smaller, smallerName]: [number, string]): string {
  const rest = Math.floor((left % size) / smaller);
  return `${Math.floor(left / size)} ${name}${rest === 0 ? '' : ` ${rest} ${smallerName}`}`;
}

/** An instant, both in milliseconds since the epoch: `14:03:00 UTC`, and with its date where that is not today's. */
export function instantText(instant: number, now: number): string {
  const text = isoText(instant);
  if (text === undefined) return 'a time beyond every calendar';
  const [date = '', time] = text.split('T');
  const isToday = isoText(now)?.startsWith(date);
  return `${isToday ? '' : `${date} `}${time?.slice(0, 8)} UTC`;
}

/** ISO 8601, or undefined beyond every calendar. */
export function isoText(instant: number): string | undefined {
  const date = new Date(instant);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** Until when, and how long that is: `until 14:03:00 UTC (in 42 s)`. */
export function untilText(instant: number, now: number): string {
  const left = instant - now;
  const isSensible = left > 0 && left < 1_000 * DAY;
  return `until ${instantText(instant, now)}${isSensible ? ` (in ${durationText(left)})` : ''}`;
}
