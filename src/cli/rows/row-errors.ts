import type * as z from 'zod/mini';
import { INT64_MAX, INT64_MIN } from '../../contract/int64.ts';
import { stringifyJson } from '../../contract/json.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { cutToWidth } from '../output/width.ts';
import type { RowError, RowValue } from './row.ts';

/** The most terminal columns that a value takes in a message. */
const MAX_VALUE_WIDTH = 40;

/** The beginning of a text from a file, safe to print. */
export function excerpt(text: string): string {
  // A row may have a megabyte: cut it before the slower steps.
  return cutToWidth(sanitizeForTerminal(text.slice(0, 4 * MAX_VALUE_WIDTH)), MAX_VALUE_WIDTH);
}

/** The CSV column (and option) of a field. JSON uses the field names of the service. */
export const columnName = (field: string): string => (field === 'categoryId' ? 'category' : field);

/** Describes a failed validation with the values found: `status "gone" must be one of …`. */
export function describeInvalidRow(error: z.core.$ZodError, { value, format }: RowValue): Required<RowError> {
  const problems = error.issues.map(({ path, message }) => {
    const [field] = path.map(String);
    const found = field === undefined ? value : (value as Record<string, unknown>)[field];
    const label = format === 'csv' && field !== undefined ? columnName(field) : field;
    const isInteger = field === 'categoryId' || field === 'id';
    const rule = isInteger && found !== undefined ? integerRule(found, format) : message;
    const shown = found === undefined ? undefined : showValue(found);
    return { error: joinDefined(label, shown, rule), kind: joinDefined(label, rule) };
  });
  return {
    error: problems.map((problem) => problem.error).join('; '),
    kind: problems.map((problem) => problem.kind).join(', and '),
  };
}

const joinDefined = (...parts: (string | undefined)[]): string =>
  parts.filter((part) => part !== undefined).join(' ');

const showValue = (value: unknown): string =>
  typeof value === 'string' ? `"${excerpt(value)}"` : excerpt(stringifyJson(value));

/** Mentions the bounds of an int64 only if the value is a whole number. */
function integerRule(value: unknown, format: RowValue['format']): string {
  const must = 'must be a whole number';
  const bounds = `from ${INT64_MIN} to ${INT64_MAX}`;
  if (typeof value !== 'string') {
    const number = Number(stringifyJson(value));
    return Number.isInteger(number) || Math.abs(number) === Infinity ? `${must} ${bounds}` : must;
  }
  if (format === 'json') return `${must}, not a string`;
  const text = value.trim();
  if (/^-?[1-9]\d*$/.test(text)) return `${must} ${bounds}`;
  // For example 01, or 1E+15, as spreadsheets write long numbers.
  return Number.isInteger(Number(text)) ? `${must}, in plain digits` : must;
}
