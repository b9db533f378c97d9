import { cellText, isNumber, valuesOf } from './field.ts';

/** A field to sort by, and the direction. */
export type FieldOrder = { field: string; descending: boolean };

/**
 * The number in a value of `parseJson`, which may also be text such as "12.50". An integer keeps all its digits. Undefined
 * if the value is not a number.
 */
export function numberOf(value: unknown): number | bigint | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  const text = typeof value === 'string' || isNumber(value) ? String(value) : '';
  if (/^-?\d{1,40}$/.test(text)) return BigInt(text);
  return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? Number(text) : undefined;
}

/**
 * Sorts records by a field, or by its first element if it is a list: numbers first, by their value, and then texts in the
 * order of the Unicode root collation, which is the same on every machine. Records without a value are last, also in
 * descending order. Those with equal values stay in their order.
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

/** The exact sum of numbers, which may be text such as "12.50", with all their decimals. @throws RangeError for others */
export function sumOf(values: readonly unknown[]): string {
  const numbers = values.map(String);
  const scale = Math.max(0, ...numbers.map((text) => text.split('.')[1]?.length ?? 0));
  let units = 0n;
  for (const text of numbers) {
    if (!DECIMAL.test(text)) throw new RangeError(text);
    const [whole, fraction = ''] = text.split('.');
    units += BigInt(whole + fraction.padEnd(scale, '0'));
  }
  const digits = String(units)
    .replace('-', '')
    .padStart(scale + 1, '0');
  const point = digits.length - scale;
  return `${units < 0n ? '-' : ''}${digits.slice(0, point)}${scale === 0 ? '' : `.${digits.slice(point)}`}`;
}

/** A number that can be added up exactly: with up to 20 decimals, and without an exponent. */
export const DECIMAL = /^-?\d{1,40}(\.\d{1,20})?$/;
