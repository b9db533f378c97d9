import type * as z from 'zod/mini';
import { INT64_MAX, INT64_MIN } from '../../contract/int64.ts';
import { stringifyJson } from '../../contract/json.ts';
import { visible } from '../output/visible.ts';
import { cutToWidth } from '../output/width.ts';
import type { RowFault, RowValue } from './read-row.ts';

/** What a fault shows of a value takes no more room than this on a terminal. */
const MAX_WIDTH = 40;

/** Text of a file in a fault: its beginning, with all that would steer a terminal written out. */
export function shorten(text: string): string {
  // Cut before as well: a row may have a megabyte.
  return cutToWidth(visible(text.slice(0, 4 * MAX_WIDTH)), MAX_WIDTH);
}

/** What people call a field: the column and the option are `category`. JSON has the service's own names. */
export const columnName = (field: string): string => (field === 'categoryId' ? 'category' : field);

/** What is wrong with a row, field by field, with the value that stands there: `status "gone" must be one of …`. */
export function describeFaults(error: z.core.$ZodError, { value, form }: RowValue): Required<RowFault> {
  const faults = error.issues.map(({ path, message }) => {
    const [field] = path.map(String);
    const found = field === undefined ? value : (value as Record<string, unknown>)[field];
    const label = form === 'csv' && field !== undefined ? columnName(field) : field;
    const isInteger = field === 'categoryId' || field === 'id';
    const says = isInteger && found !== undefined ? integerFault(found, form) : message;
    const shown = found === undefined ? undefined : shownValue(found);
    return { fault: words(label, shown, says), kind: words(label, says) };
  });
  return {
    fault: faults.map(({ fault }) => fault).join('; '),
    kind: faults.map(({ kind }) => kind).join(', and '),
  };
}

const words = (...parts: (string | undefined)[]): string =>
  parts.filter((part) => part !== undefined).join(' ');

const shownValue = (value: unknown): string =>
  typeof value === 'string' ? `"${shorten(value)}"` : shorten(stringifyJson(value));

/** The bounds of an int64 help only who has written a whole number. */
function integerFault(value: unknown, form: RowValue['form']): string {
  const must = 'must be a whole number';
  const bounds = `from ${INT64_MIN} to ${INT64_MAX}`;
  if (typeof value !== 'string') {
    const number = Number(stringifyJson(value));
    return Number.isInteger(number) || Math.abs(number) === Infinity ? `${must} ${bounds}` : must;
  }
  if (form === 'json') return `${must}, not a text`;
  const text = value.trim();
  if (/^-?[1-9]\d*$/.test(text)) return `${must} ${bounds}`;
  // 01, and what spreadsheets make of long numbers: 1E+15.
  return Number.isInteger(Number(text)) ? `${must}, in plain digits` : must;
}
