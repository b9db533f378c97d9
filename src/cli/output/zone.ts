const DAY = 24 * 60 * 60_000;

/**
 * Converts between instants, in milliseconds since the epoch, and wall times. A wall time is what a clock in the time
 * zone shows, in the milliseconds of a clock in UTC that shows the same.
 */
export type Zone = {
  wallTimeAt(instant: number): number;
  /**
   * The first instant at which a clock shows this time. If clocks skip this time when they are set forward, the result is
   * later by the duration that they skip.
   */
  instantOf(wallTime: number): number;
};

const FIXED_OFFSET = /^([+-])(\d\d):(\d\d)$/;

/** The offset from UTC in milliseconds, if the name of a zone is an offset such as `+05:30`. */
export function offsetOf(name: string): number | undefined {
  const [, sign, hours, minutes] = FIXED_OFFSET.exec(name) ?? [];
  if (sign === undefined) return undefined;
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
}

/**
 * @param name returns the name in the IANA database, such as `Europe/Berlin`, or an offset, such as `+05:30`; called only
 * if the zone is needed
 */
export function createZone(name: () => string): Zone {
  let zone: string | undefined;
  let formatter: Intl.DateTimeFormat | undefined;

  function wallTimeAt(instant: number): number {
    zone ??= name();
    const offset = offsetOf(zone);
    if (offset !== undefined) return instant + offset;
    // Node 20 does not accept an offset here.
    formatter ??= new Intl.DateTimeFormat('en-US', { timeZone: zone, ...FORMAT });
    const parts = formatter.formatToParts(instant);
    const [year = 0, month = 0, day = 0, hour, minute, second] = FIELDS.map((field) =>
      Number(parts.find(({ type }) => type === field)?.value),
    );
    const milliseconds = ((instant % 1_000) + 1_000) % 1_000;
    return utcTime([year, month, day], [hour, minute, second, milliseconds]);
  }

  function instantOf(wallTime: number): number {
    // The offset changes at most once from the day before to the day after, so one of the two offsets is right.
    const [before = 0, after = 0] = [wallTime - DAY, wallTime + DAY].map(
      (instant) => wallTimeAt(instant) - instant,
    );
    const earlier = wallTime - Math.max(before, after);
    return wallTimeAt(earlier) === wallTime ? earlier : wallTime - Math.min(before, after);
  }

  return { wallTimeAt, instantOf };
}

const FIELDS = ['year', 'month', 'day', 'hour', 'minute', 'second'] as const;
const FORMAT = {
  hourCycle: 'h23',
  calendar: 'gregory',
  ...Object.fromEntries(FIELDS.map((field) => [field, 'numeric'])),
} as const;

/** Milliseconds since the epoch. Unlike Date.UTC, this does not move the years 0 to 99 to the 20th century. */
export function utcTime(
  [year, month, day]: readonly [number, number, number],
  [hour = 0, minute = 0, second = 0, millisecond = 0]: readonly (number | undefined)[] = [],
): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.setUTCHours(hour, minute, second, millisecond);
}

/** The start of the day of a wall time, or of a day before or after it. */
export const startOfDay = (wallTime: number, days: number): number =>
  (Math.floor(wallTime / DAY) + days) * DAY;
