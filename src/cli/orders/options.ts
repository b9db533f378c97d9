import { ArgumentError } from '../core/parsers.ts';
import { parseField } from '../fields/parse-fields.ts';
import { parseTime, type TimeArgument } from './time.ts';

/** The values of the options of `pets orders`. */
export type OrderOptions = {
  where?: readonly Condition[];
  since?: TimeArgument;
  until?: TimeArgument;
  dateField?: string;
  sort?: FieldOrder;
  columns?: readonly string[];
  sum?: string;
};

/** A condition of `--where`: the field must have this value. */
export type Condition = { field: string; value: string };

/** A field to sort by, and the direction. */
export type FieldOrder = { field: string; descending: boolean };

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

/** Parses a date, a time, a duration before now, or a word such as `yesterday`. */
export function parseTimeArgument(text: string): TimeArgument {
  const time = parseTime(text);
  if (time) return time;
  throw new ArgumentError(
    'must be a date such as 2026-11-20, a time such as 2026-11-20T14:30, yesterday, today, or a duration before now such as 7d or 12h',
  );
}
