import { compareMissing, createKeyComparison, sortKeyOf } from '../fields/compare.ts';
import { type Fields, valuesOf } from '../fields/field.ts';
import type { Zone } from '../output/zone.ts';
import type { FieldOrder } from './options.ts';
import { instantIn } from './time.ts';

/**
 * Sorts orders by a field, or by its first element if it is a list. Orders with equal values stay in the order of the
 * service. Orders without a value are last, also in descending order.
 */
export function sortByField(
  orders: readonly Fields[],
  { field, descending }: FieldOrder,
  zone: Zone,
): readonly Fields[] {
  const compareKeys = createKeyComparison();
  const keyed = orders.map((order) => {
    const [value] = valuesOf(order, field);
    return { order, value, key: sortKeyOf(value, (each) => instantIn(each, zone)) };
  });
  const sign = descending ? -1 : 1;
  keyed.sort((a, b) => compareMissing(a.value, b.value) || sign * compareKeys(a.key, b.key));
  return keyed.map(({ order }) => order);
}
