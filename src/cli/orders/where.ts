import { stringifyJson } from '../../contract/json.ts';
import { compareDecimals, decimalOf } from '../fields/decimal.ts';
import { isNumber, valuesOf } from '../fields/field.ts';
import type { Condition } from './options.ts';

/** Whether the field has the value. If the field is a list, one of its elements must have the value. */
export const meets = (order: unknown, { field, value }: Condition): boolean =>
  valuesOf(order, field).some((each) => hasValue(each, value));

/** Compares numbers exactly, so that 12.5 is 12.50, and other values by their text. */
function hasValue(value: unknown, text: string): boolean {
  if (typeof value === 'string') return value === text;
  if (stringifyJson(value) === text) return true;
  const [number, wanted] = [isNumber(value) ? decimalOf(value) : undefined, decimalOf(text)];
  return number !== undefined && wanted !== undefined && compareDecimals(number, wanted) === 0;
}
