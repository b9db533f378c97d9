import type { ReceivedPet } from '../../contract/schemas.ts';
import { compareDecimals, decimalOf } from '../orders/decimal.ts';
import { createTextComparison } from '../output/compare-texts.ts';
import { cellText } from '../output/pets.ts';
import { type SortOrder, sortFields } from './selection.ts';

/** Compares two values as `Array.sort` needs it. */
type Compare<Value> = (one: Value, other: Value) => number;

/** Returns a comparison of animals. Animals without the field come last, and equal animals are in the order of their ids. */
export function compareAnimals(order: SortOrder): Compare<ReceivedPet> {
  const [name, direction] = order.split(':') as [keyof typeof sortFields, 'desc'?];
  const field = sortFields[name];
  const compareValues = createValueComparison();
  // A name is text even if it consists of digits.
  const compareField: Compare<never> = name === 'name' ? createTextComparison() : compareValues;
  const sign = direction === 'desc' ? -1 : 1;
  return (one, other) => {
    const [a, b] = [one[field], other[field]] as [never, never];
    return compareMissing(a, b) || sign * compareField(a, b) || compareValues(one.id, other.id);
  };
}

/** Puts a missing value after any other. */
export const compareMissing: Compare<unknown> = (one, other) =>
  Number(one === undefined || one === null) - Number(other === undefined || other === null);

/**
 * Returns a comparison of values that any service may send. Numbers come first, in their exact order, even if the service
 * sends them as text. Other values are compared as text.
 */
export function createValueComparison(): Compare<unknown> {
  const compareTexts = createTextComparison();
  return (one, other) => {
    if (typeof one === 'bigint' && typeof other === 'bigint') return one < other ? -1 : Number(one > other);
    const [number, otherNumber] = [decimalOf(one), decimalOf(other)];
    if (number && otherNumber) return compareDecimals(number, otherNumber);
    if (number || otherNumber) return number ? -1 : 1;
    return compareTexts(cellText(one), cellText(other));
  };
}
