import { isNumber } from './field.ts';

/** An exact decimal number: `units` × 10^-`scale`. The scale is the number of decimals, and not negative. */
export type Decimal = { units: bigint; scale: number };

export const ZERO: Decimal = { units: 0n, scale: 0 };

const NUMBER = /^(-?\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/;

/** Limits the digits of a number, because 1e999999999 would need a gigabyte. */
const MAX_EXPONENT = 1_000;

/** The number in a value of `parseJson`, which may also be text such as "12.50". Undefined if it is not a number. */
export function decimalOf(value: unknown): Decimal | undefined {
  if (typeof value !== 'string' && !isNumber(value)) return undefined;
  const [, whole, fraction = '', exponent = '0'] = NUMBER.exec(String(value)) ?? [];
  if (whole === undefined || Math.abs(Number(exponent)) > MAX_EXPONENT) return undefined;
  const units = BigInt(whole + fraction);
  const scale = fraction.length - Number(exponent);
  return scale < 0 ? { units: units * powerOfTen(-scale), scale: 0 } : { units, scale };
}

export function addDecimals(a: Decimal, b: Decimal): Decimal {
  const scale = Math.max(a.scale, b.scale);
  return { units: unitsAt(a, scale) + unitsAt(b, scale), scale };
}

/** Negative if `a` is less than `b`, positive if it is greater, and zero if they are equal. */
export function compareDecimals(a: Decimal, b: Decimal): number {
  const scale = Math.max(a.scale, b.scale);
  const difference = unitsAt(a, scale) - unitsAt(b, scale);
  return difference < 0n ? -1 : Number(difference > 0n);
}

/** The number without its decimals. */
export const wholePart = ({ units, scale }: Decimal): number => Number(units / powerOfTen(scale));

/** The number as JSON, with all decimals of its scale, such as `25.00`. */
export function formatDecimal({ units, scale }: Decimal): string {
  const sign = units < 0n ? '-' : '';
  const digits = String(units)
    .replace('-', '')
    .padStart(scale + 1, '0');
  if (scale === 0) return sign + digits;
  return `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

const unitsAt = ({ units, scale }: Decimal, wanted: number): bigint => units * powerOfTen(wanted - scale);

const powerOfTen = (exponent: number): bigint => 10n ** BigInt(exponent);
