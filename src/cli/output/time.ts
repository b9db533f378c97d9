const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration in at most two units: `42 s`, `6 min 33 s`, `3 h 5 min`, `2 days 4 h`. The smaller unit is rounded up. */
export function formatDuration(milliseconds: number): string {
  let left = roundUp(milliseconds, SECOND);
  if (left >= HOUR) left = roundUp(left, MINUTE);
  if (left >= DAY) left = roundUp(left, HOUR);
  if (left < MINUTE) return `${left / SECOND} s`;
  if (left < HOUR) return twoUnits(left, [MINUTE, 'min'], [SECOND, 's']);
  if (left < DAY) return twoUnits(left, [HOUR, 'h'], [MINUTE, 'min']);
  return twoUnits(left, [DAY, left < 2 * DAY ? 'day' : 'days'], [HOUR, 'h']);
}

const roundUp = (milliseconds: number, unit: number): number => Math.ceil(milliseconds / unit) * unit;

function twoUnits(
  left: number,
  [size, name]: [number, string],
  [smaller, smallerName]: [number, string],
): string {
  const rest = (left % size) / smaller;
  return `${Math.floor(left / size)} ${name}${rest === 0 ? '' : ` ${rest} ${smallerName}`}`;
}

/** A time such as `14:03:00 UTC`, with the date unless it is today. Both arguments are milliseconds since the epoch. */
export function formatTime(instant: number, now: number): string {
  const text = formatIso(instant);
  if (text === undefined) return 'a time out of range';
  const [date = '', time] = text.split('T');
  const isToday = formatIso(now)?.startsWith(date);
  return `${isToday ? '' : `${date} `}${time?.slice(0, 8)} UTC`;
}

/** Formats milliseconds since the epoch as ISO 8601. Undefined if a Date cannot represent the time. */
export function formatIso(instant: number): string | undefined {
  const date = new Date(instant);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** A rate limit that ends more than this many milliseconds from now is a mistake of the service. */
const MAX_DEADLINE = 1_000 * DAY;

/** Formats a deadline, for example as `until 14:03:00 UTC (in 42 s)`. Undefined after `MAX_DEADLINE`. */
export function formatDeadline(instant: number, now: number): string | undefined {
  const left = instant - now;
  if (left > MAX_DEADLINE) return undefined;
  return `until ${formatTime(instant, now)}${left > 0 ? ` (in ${formatDuration(left)})` : ''}`;
}
