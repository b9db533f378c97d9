import { compareDecimals, type Decimal, decimalOf } from './decimal.ts';
import { cellText } from './field.ts';

/** Compares two values as `Array.sort` needs it. */
export type Compare<Value> = (one: Value, other: Value) => number;

/** A value in the form in which it is compared. */
export type SortKey =
  | { kind: 'number'; value: Decimal }
  | { kind: 'instant'; value: Decimal }
  | { kind: 'text'; value: string };

/** Values of different kinds are sorted by kind. */
const KINDS: readonly SortKey['kind'][] = ['number', 'instant', 'text'];

/**
 * The sort key of a value that any service may send. A number in a text is a number too.
 *
 * @param instantIn returns the time in a value, in milliseconds since the epoch. By default, times are compared as text.
 */
export function sortKeyOf(
  value: unknown,
  instantIn: (value: unknown) => Decimal | undefined = () => undefined,
): SortKey {
  const number = decimalOf(value);
  if (number !== undefined) return { kind: 'number', value: number };
  const instant = instantIn(value);
  if (instant !== undefined) return { kind: 'instant', value: instant };
  return { kind: 'text', value: cellText(value) };
}

export function createKeyComparison(): Compare<SortKey> {
  const compareTexts = createTextComparison();
  return (one, other) => {
    if (one.kind === 'number' && other.kind === 'number') return compareDecimals(one.value, other.value);
    if (one.kind === 'instant' && other.kind === 'instant') return compareDecimals(one.value, other.value);
    if (one.kind === 'text' && other.kind === 'text') return compareTexts(one.value, other.value);
    return KINDS.indexOf(one.kind) - KINDS.indexOf(other.kind);
  };
}

/** Returns a comparison of values by their sort keys. */
export function createValueComparison(): Compare<unknown> {
  const compareKeys = createKeyComparison();
  return (one, other) => {
    // This is faster, and most lists are sorted by integers.
    if (typeof one === 'bigint' && typeof other === 'bigint') return one < other ? -1 : Number(one > other);
    return compareKeys(sortKeyOf(one), sortKeyOf(other));
  };
}

/** Puts a missing value after any other. */
export const compareMissing: Compare<unknown> = (one, other) =>
  Number(one === undefined || one === null) - Number(other === undefined || other === null);

/** Returns a comparison of texts by the Unicode root collation, which is the same on every machine. */
export function createTextComparison(): Compare<string> {
  // English has no collation rules of its own, so this is the root collation. `und` would be the locale of the system.
  return new Intl.Collator('en').compare;
}
