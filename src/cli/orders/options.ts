import { ArgumentError } from '../core/parsers.ts';
import { parseField } from '../fields/field.ts';
import type { FieldOrder } from '../fields/sort.ts';
import { instantOf, startOfDay } from '../output/time.ts';

/** The values of the options of `pets orders`. */
export type OrderOptions = {
  where?: readonly Condition[];
  since?: TimeLimit;
  until?: TimeLimit;
  sort?: FieldOrder;
  columns?: readonly string[];
  sum?: string;
};

/** A condition of `--where`: the field must have this value. */
export type Condition = { field: string; value: string };

/** A time on a command line: the start of a local day, a number of milliseconds before now, or an ISO time. */
export type Time = { daysFromToday: number } | { ago: number } | IsoTime;

/** A time of `--since` or `--until`, and the field that it is for, if the user named it. */
export type TimeLimit = { field: string | undefined; time: Time };

/**
 * A time in ISO 8601, in milliseconds since the epoch of a clock in UTC that shows the same. The offset from UTC is in
 * milliseconds. Without an offset, the time is local.
 */
type IsoTime = { wallTime: number; offset: number | undefined };

/** Parses `<field>=<value>`. The value may be empty and may contain an equals sign. */
export function parseCondition(text: string): Condition {
  const equals = text.indexOf('=');
  const field = text.slice(0, equals);
  // The last character is part of another operator, such as != or >=.
  if (equals <= 0 || /[!<>~=]$/.test(field))
    throw new ArgumentError('must have the form <field>=<value>, such as status=delivered');
  return { field, value: text.slice(equals + 1) };
}

/** Parses `<field>`, `<field>:asc` or `<field>:desc`. A name that has a colon needs a direction after it. */
export function parseFieldOrder(text: string): FieldOrder {
  const [, field = '', direction] = /^(.*):(.*)$/s.exec(text) ?? [text, text];
  if (direction !== undefined && direction !== 'asc' && direction !== 'desc')
    throw new ArgumentError('must be <field>, <field>:asc or <field>:desc');
  return { field: parseField(field), descending: direction === 'desc' };
}

/** Parses a time, which may follow a field, as in `placedAt=7d`. */
export function parseTimeLimit(text: string): TimeLimit {
  const [, field, word = ''] = /^(?:(.+)=)?(.*)$/s.exec(text) ?? [];
  const time = parseTime(word);
  if (time) return { field, time };
  throw new ArgumentError(
    'must be today, yesterday, a number of days or hours ago (7d, 12h), a date (2026-11-20) or a time (2026-11-20T14:30)',
  );
}

const HOUR = 3_600_000;
const DAYS: Readonly<Record<string, number>> = { yesterday: -1, today: 0, tomorrow: 1 };
const UNIT_DAYS: Readonly<Record<string, number>> = { d: 1, w: 7 };

function parseTime(text: string): Time | undefined {
  const word = text.toLowerCase();
  if (Object.hasOwn(DAYS, word)) return { daysFromToday: DAYS[word] ?? 0 };
  if (word === 'now') return { ago: 0 };
  const [, amount, unit = ''] = /^(\d{1,5})([hdw])$/.exec(word) ?? [];
  if (amount === undefined) return parseIsoTime(text);
  return unit === 'h'
    ? { ago: Number(amount) * HOUR }
    : { daysFromToday: -Number(amount) * (UNIT_DAYS[unit] ?? 1) };
}

const ISO = /^(\d{4}-\d\d-\d\d)(?:[t ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,30})?)?)(z|[+-]\d\d(?::?[0-5]\d)?)?)?$/i;

/** Parses a time such as `2026-11-20` or `2026-11-20T14:30:00+01:00`. Undefined for other texts. */
function parseIsoTime(text: string): IsoTime | undefined {
  const [, date, time = '00:00', zone] = ISO.exec(text) ?? [];
  if (date === undefined) return undefined;
  const wallTime = Date.parse(`${date}T${time.replace(',', '.')}Z`);
  // A day such as 30 February becomes a day of the next month.
  if (Number.isNaN(wallTime) || !new Date(wallTime).toISOString().startsWith(date)) return undefined;
  if (zone === undefined) return { wallTime, offset: undefined };
  const [, sign = '', hours = 0, minutes = 0] = /^([+-])(\d\d):?(\d\d)?$/.exec(zone) ?? [];
  return { wallTime, offset: Number(`${sign}1`) * (Number(hours) * HOUR + Number(minutes) * 60_000) };
}

/** The time in milliseconds since the epoch. `zone` is the name of the user's time zone. */
export function resolveTime(time: Time, now: number, zone: () => string): number {
  if ('ago' in time) return now - time.ago;
  if ('daysFromToday' in time) return startOfDay(now, time.daysFromToday, zone());
  return time.offset === undefined ? instantOf(time.wallTime, zone()) : time.wallTime - time.offset;
}

/** The instant in a field, in milliseconds since the epoch. Undefined if its value is not a time in ISO 8601. */
export function instantIn(value: unknown, zone: () => string): number | undefined {
  const time = typeof value === 'string' ? parseIsoTime(value) : undefined;
  return time && resolveTime(time, 0, zone);
}

/** Whether a value is a time that names its offset from UTC. */
export const hasOffset = (value: unknown): value is string =>
  typeof value === 'string' && parseIsoTime(value)?.offset !== undefined;
