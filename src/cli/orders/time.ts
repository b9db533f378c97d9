import type { Decimal } from '../fields/decimal.ts';
import { startOfDay, utcTime, type Zone } from '../output/zone.ts';

const HOUR = 60 * 60_000;
const DAY = 24 * HOUR;
const UNITS: Readonly<Record<string, number>> = { h: HOUR, d: DAY, w: 7 * DAY };
const DAYS: Readonly<Record<string, number>> = { yesterday: -1, today: 0, tomorrow: 1 };

/** A time on a command line: the start of a local day, a number of milliseconds before now, or an ISO time. */
export type TimeArgument = { daysFromToday: number } | { ago: number } | IsoTime;

/**
 * A time in ISO 8601. The offset from UTC is in milliseconds. Without an offset, the time is local. `fraction` has the
 * digits of the fraction of a millisecond.
 */
type IsoTime = { wallTime: number; fraction: string; offset: number | undefined };

/** Parses a time such as `yesterday`, `now`, `7d`, `2026-11-20` or `2026-11-20T14:30:00Z`. Undefined for other texts. */
export function parseTime(text: string): TimeArgument | undefined {
  const word = text.toLowerCase();
  if (Object.hasOwn(DAYS, word)) return { daysFromToday: DAYS[word] ?? 0 };
  if (word === 'now') return { ago: 0 };
  const [, amount, unit = ''] = /^(\d{1,5})([hdw])$/.exec(word) ?? [];
  return amount === undefined ? parseIsoTime(text) : { ago: Number(amount) * (UNITS[unit] ?? 0) };
}

/** The exact time in milliseconds since the epoch. */
export function resolveTime(time: TimeArgument, now: number, zone: Zone): Decimal {
  if ('ago' in time) return exactTime(now - time.ago);
  if ('daysFromToday' in time)
    return exactTime(zone.instantOf(startOfDay(zone.wallTimeAt(now), time.daysFromToday)));
  return instantOf(time, zone);
}

/** Whether the arguments are local times in this order. Their instants may not be, because clocks skip some local times. */
export const areLocalInOrder = (earlier: TimeArgument, later: TimeArgument): boolean =>
  isLocal(earlier) && isLocal(later) && earlier.wallTime < later.wallTime;

const isLocal = (time: TimeArgument): time is IsoTime => 'wallTime' in time && time.offset === undefined;

/** The exact instant in a field, in milliseconds since the epoch. Undefined if its value is not a time in ISO 8601. */
export function instantIn(value: unknown, zone: Zone): Decimal | undefined {
  const time = timeIn(value);
  return time && instantOf(time, zone);
}

/** The instant in a field in whole milliseconds. Undefined for a date, for a time without a zone, and for other values. */
export function zonedInstantIn(value: unknown): number | undefined {
  const { wallTime = 0, offset } = timeIn(value) ?? {};
  return offset === undefined ? undefined : wallTime - offset;
}

/** Whether the value of a field is a time in ISO 8601. */
export const isTime = (value: unknown): boolean => timeIn(value) !== undefined;

const timeIn = (value: unknown): IsoTime | undefined =>
  typeof value === 'string' ? parseIsoTime(value) : undefined;

const instantOf = ({ wallTime, fraction, offset }: IsoTime, zone: Zone): Decimal =>
  exactTime(offset === undefined ? zone.instantOf(wallTime) : wallTime - offset, fraction);

function exactTime(milliseconds: number, fraction = ''): Decimal {
  const scale = fraction.length;
  return { units: BigInt(milliseconds) * 10n ** BigInt(scale) + BigInt(fraction), scale };
}

const DATE = /^(?<year>\d{4})-(?<month>0[1-9]|1[0-2])-(?<day>0[1-9]|[12]\d|3[01])/;
const TIME =
  /(?<hour>[01]\d|2[0-3]):(?<minute>[0-5]\d)(?::(?<second>[0-5]\d)(?:[.,](?<fraction>\d{1,30}))?)?/;
const OFFSET = /(?<utc>z)|(?<sign>[+-])(?<hours>[01]\d|2[0-3])(?::?(?<minutes>[0-5]\d))?/;
const ISO = new RegExp(`${DATE.source}(?:[t ]${TIME.source}(?:${OFFSET.source})?)?$`, 'i');

function parseIsoTime(text: string): IsoTime | undefined {
  const { groups } = ISO.exec(text) ?? {};
  if (!groups) return undefined;
  const number = (name: string) => Number(groups[name] ?? 0);
  const digits = groups['fraction'] ?? '';
  const milliseconds = Number(digits.slice(0, 3).padEnd(3, '0'));
  const fraction = digits.slice(3);
  const wallTime = utcTime(
    [number('year'), number('month'), number('day')],
    [number('hour'), number('minute'), number('second'), milliseconds],
  );
  // A day such as 30 February becomes a day of the next month.
  if (new Date(wallTime).getUTCDate() !== number('day')) return undefined;
  const { utc, sign } = groups;
  const offset = (number('hours') * 60 + number('minutes')) * 60_000;
  if (sign === undefined) return { wallTime, fraction, offset: utc === undefined ? undefined : 0 };
  return { wallTime, fraction, offset: sign === '-' ? -offset : offset };
}
