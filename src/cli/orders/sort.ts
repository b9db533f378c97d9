import { stringifyJson } from '../../contract/json.ts';
import { createTextComparison } from '../output/compare-texts.ts';
import type { Fields } from '../output/field.ts';
import type { Zone } from '../output/zone.ts';
import { compareDecimals, type Decimal, decimalOf } from './decimal.ts';
import type { FieldOrder } from './options.ts';
import { instantIn } from './time.ts';
import { valuesOf } from './where.ts';

/** A value in the form in which it is compared. */
type SortKey =
  | { kind: 'number'; value: Decimal }
  | { kind: 'instant'; value: number }
  | { kind: 'text'; value: string };

/** Values of different kinds are sorted by kind. */
const KINDS: readonly SortKey['kind'][] = ['number', 'instant', 'text'];

/**
 * Sorts orders by a field, or by its first element if it is a list. Orders with equal values stay in the order of the
 * service. Orders without a value are last, also in descending order.
 */
export function sortByField(
  orders: readonly Fields[],
  { field, descending }: FieldOrder,
  zone: Zone,
): readonly Fields[] {
  const compareText = createTextComparison();
  const keyed = orders.map((order) => ({ order, key: sortKeyOf(valuesOf(order, field)[0], zone) }));
  const sign = descending ? -1 : 1;
  const sorted = keyed.sort((a, b) => {
    if (a.key === undefined || b.key === undefined) return Number(!a.key) - Number(!b.key);
    return sign * compareKeys(a.key, b.key, compareText);
  });
  return sorted.map(({ order }) => order);
}

function sortKeyOf(value: unknown, zone: Zone): SortKey | undefined {
  if (value === undefined || value === null) return undefined;
  const number = decimalOf(value);
  if (number !== undefined) return { kind: 'number', value: number };
  const instant = instantIn(value, zone);
  if (instant !== undefined) return { kind: 'instant', value: instant };
  return { kind: 'text', value: typeof value === 'string' ? value : stringifyJson(value) };
}

function compareKeys(a: SortKey, b: SortKey, compareText: (a: string, b: string) => number): number {
  if (a.kind === 'number' && b.kind === 'number') return compareDecimals(a.value, b.value);
  if (a.kind === 'instant' && b.kind === 'instant') return a.value - b.value;
  if (a.kind === 'text' && b.kind === 'text') return compareText(a.value, b.value);
  return KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind);
}
