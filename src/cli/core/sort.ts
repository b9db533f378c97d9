import { cellText, checkFieldName, isNumber, valuesOf } from './values.ts';

export type FieldOrder = { field: string; descending: boolean };

/** Parses a field that may end with `:asc` or `:desc`. @throws ArgumentError if the name of the field is empty */
export function parseFieldOrder(text: string): FieldOrder {
  const [, field = '', direction] = /^(.*?)(?::(asc|desc))?$/s.exec(text) ?? [];
  return { field: checkFieldName(field), descending: direction === 'desc' };
}

/** The number that a value of `parseJson` is, or has as text; undefined if none. Integers of up to 40 digits stay exact. */
function numberOf(value: unknown): number | bigint | undefined {
  const text = typeof value === 'string' || isNumber(value) ? String(value) : '';
  if (/^-?\d{1,40}$/.test(text)) return BigInt(text);
  return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? Number(text) : undefined;
}

/**
 * Sorts records by a field, or by its first element if it is a list. Ascending order has numbers first, by their value,
 * and then texts in the order of the Unicode root collation, which does not depend on the locale. Records without a
 * value are last, also in descending order. Records with equal values stay in their order.
 */
export function sortByField<Item>(records: readonly Item[], { field, descending }: FieldOrder): Item[] {
  // English has no collation rules of its own, so this is the root collation. `und` would be the locale of the system.
  const { compare } = new Intl.Collator('en');
  const sign = descending ? -1 : 1;
  const keyed = records.map((record) => {
    const [value] = valuesOf(record, field);
    return {
      record,
      isMissing: value === undefined || value === null,
      key: numberOf(value) ?? cellText(value),
    };
  });
  const compareKeys = (a: number | bigint | string, b: number | bigint | string): number => {
    if (typeof a === 'string' && typeof b === 'string') return compare(a, b);
    if (typeof a === 'string' || typeof b === 'string') return typeof a === 'string' ? 1 : -1;
    return a < b ? -1 : Number(a > b);
  };
  keyed.sort(
    (one, other) => Number(one.isMissing) - Number(other.isMissing) || sign * compareKeys(one.key, other.key),
  );
  return keyed.map(({ record }) => record);
}
