const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration in at most two units: `42 s`, `6 min 33 s`, `3 h 5 min`, `2 days 4 h`. The smaller unit is rounded up. */
export function formatDuration(milliseconds: number): string {
  let left = roundUp(Math.max(0, milliseconds), SECOND);
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

/**
 * Returns a function that formats instants, in milliseconds since the epoch, as `2026-11-20 13:00:00 CET`. `zone` is
 * the name of a time zone in the IANA database; undefined means that of the system.
 */
export function createTimeFormatter(zone: string | undefined): (instant: number) => string {
  // Intl takes milliseconds to load, and UTC does not need it.
  if (zone === 'UTC')
    return (instant) => `${new Date(instant).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  const two = '2-digit';
  const time = { year: 'numeric', month: two, day: two, hour: two, minute: two, second: two } as const;
  // Swedish times have the form `2026-11-20 13:00:00 CET`.
  const { format } = new Intl.DateTimeFormat('sv-SE', { ...time, timeZoneName: 'short', timeZone: zone });
  return (instant) => format(instant).replace('\u2212', '-');
}
