import { stringifyJson } from '../../contract/json.ts';
import { fieldAt, isNumber } from '../output/field.ts';
import { compareDecimals, decimalOf } from './decimal.ts';
import type { Condition } from './options.ts';

/** Whether the field has the value. If the field is a list, one of its elements must have the value. */
export const meets = (order: unknown, { field, value }: Condition): boolean =>
  valuesOf(order, field).some((each) => hasValue(each, value));

/** The value of a field, or the elements of a list; empty if there is no such field. */
export function valuesOf(order: unknown, field: string): unknown[] {
  const value = fieldAt(order, field);
  if (value === undefined) return [];
  return Array.isArray(value) ? value.flat(Number.POSITIVE_INFINITY) : [value];
}

/** Compares numbers exactly, so that 12.5 is 12.50, and other values by their text. */
function hasValue(value: unknown, text: string): boolean {
  if (typeof value === 'string') return value === text;
  if (stringifyJson(value) === text) return true;
  const [number, wanted] = [isNumber(value) ? decimalOf(value) : undefined, decimalOf(text)];
  return number !== undefined && wanted !== undefined && compareDecimals(number, wanted) === 0;
}
