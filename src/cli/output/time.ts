import { createZone, offsetOf } from './zone.ts';

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

const OUT_OF_RANGE = 'a time out of range';

/**
 * A time such as `14:03:00 CET`, with the date unless it is today. Times are in milliseconds since the epoch. `zone` is the
 * name of the time zone in the IANA database.
 */
export function formatTime(instant: number, now: number, zone: string): string {
  const read = createClock(() => zone);
  const shown = read(instant);
  if (shown === undefined) return OUT_OF_RANGE;
  const isToday = read(now)?.date === shown.date;
  return `${isToday ? '' : `${shown.date} `}${shown.time} ${shown.zoneName}`;
}

/** Formats an ISO 8601 time as `2026-11-20 13:00 CET`. `zone` is the name of the time zone in the IANA database. */
export function formatMinute(instant: string, zone: string): string {
  const shown = createClock(() => zone)(Date.parse(instant));
  return shown === undefined ? instant : `${shown.date} ${shown.time.slice(0, 5)} ${shown.zoneName}`;
}

/**
 * Returns a function that formats many instants, in milliseconds since the epoch, as `2026-11-20 13:00:00 CET`. `zoneName`
 * is called only if an instant is formatted.
 */
export function createTimeFormatter(zoneName: () => string): (instant: number) => string {
  const read = createClock(zoneName);
  return (instant) => {
    const shown = read(instant);
    return shown === undefined ? OUT_OF_RANGE : `${shown.date} ${shown.time} ${shown.zoneName}`;
  };
}

/**
 * Returns a function that reads a clock in a time zone at an instant. Undefined if a Date cannot represent the time. `zone`
 * returns the name of the time zone; it is called at most once, and only if the clock is read.
 */
function createClock(zone: () => string) {
  let id: string | undefined;
  const nameOfZone = () => (id ??= zone());
  const { wallTimeAt } = createZone(nameOfZone);
  const names = new Map<number, string>();
  return (instant: number) => {
    if (formatIso(instant) === undefined) return undefined;
    // Intl takes milliseconds to load, and UTC does not need it.
    const isUtc = nameOfZone() === 'UTC';
    const offset = isUtc ? 0 : wallTimeAt(instant) - instant;
    const [date, time] = formatIso(instant + offset)?.split('T') ?? [];
    if (date === undefined || time === undefined) return undefined;
    // Finding a name is slow. A zone has a name for each of its offsets.
    const zoneName = names.get(offset) ?? (isUtc ? 'UTC' : nameOf(nameOfZone(), instant));
    names.set(offset, zoneName);
    return { date, time: time.slice(0, 8), zoneName };
  };
}

/** English-speaking countries. The locale of each has short names for the time zones that are common there. */
const LOCALES = ['en-US', 'en-GB', 'en-AU', 'en-CA', 'en-IN', 'en-ZA', 'en-HK'];

/** The short name of a time zone, such as `CET` or `CEST`; if no locale has one, the offset, such as `GMT+5:45`. */
function nameOf(timeZone: string, instant: number): string {
  // The format of Intl, which in Node 20 does not accept an offset.
  if (offsetOf(timeZone) !== undefined) return `GMT${timeZone.replace(/0(?=\d:)|:00$/g, '')}`;
  let name = timeZone;
  for (const locale of LOCALES) {
    const format = new Intl.DateTimeFormat(locale, { timeZone, timeZoneName: 'short' });
    name = format.formatToParts(instant).find(({ type }) => type === 'timeZoneName')?.value ?? name;
    if (!/^GMT[+-]/.test(name)) break;
  }
  return name;
}

/** Formats milliseconds since the epoch as ISO 8601. Undefined if a Date cannot represent the time. */
export function formatIso(instant: number): string | undefined {
  const date = new Date(instant);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** A rate limit that ends more than this many milliseconds from now is a mistake of the service. */
const MAX_DEADLINE = 1_000 * DAY;

/** Formats a deadline, for example as `until 14:03:00 UTC (in 42 s)`. Undefined after `MAX_DEADLINE`. */
export function formatDeadline(instant: number, now: number, zone: string): string | undefined {
  const left = instant - now;
  if (left > MAX_DEADLINE) return undefined;
  return `until ${formatTime(instant, now, zone)}${left > 0 ? ` (in ${formatDuration(left)})` : ''}`;
}
