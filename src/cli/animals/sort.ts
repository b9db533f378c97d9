import type { ReceivedPet } from '../../contract/schemas.ts';
import {
  type Compare,
  compareMissing,
  createTextComparison,
  createValueComparison,
} from '../fields/compare.ts';
import { cellText } from '../fields/field.ts';
import { type SortOrder, sortFields } from './selection.ts';

/** Returns a comparison of animals. Animals without the field come last, and equal animals are in the order of their ids. */
export function compareAnimals(order: SortOrder): Compare<ReceivedPet> {
  const [name, direction] = order.split(':') as [keyof typeof sortFields, 'desc'?];
  const field = sortFields[name];
  const compareTexts = createTextComparison();
  const compareValues = createValueComparison();
  const sign = direction === 'desc' ? -1 : 1;
  return (one, other) => {
    const [a, b] = [one[field], other[field]];
    // A name is text even if it consists of digits.
    const result = name === 'name' ? compareTexts(cellText(a), cellText(b)) : compareValues(a, b);
    return compareMissing(a, b) || sign * result || compareValues(one.id, other.id);
  };
}
