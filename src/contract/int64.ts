import { isLosslessNumber } from 'lossless-json';
import * as z from 'zod/mini';
import { fieldError } from './issues.ts';

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

const range = `must be an integer from ${INT64_MIN} to ${INT64_MAX}`;

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
const MAX_DIGITS = String(INT64_MAX).length;

const fits = (value: bigint) => value >= INT64_MIN && value <= INT64_MAX;

/** Parses an integer in canonical decimal form (no `+`, leading zero or exponent); undefined for any other text. */
export function parseInt64(text: string): bigint | undefined {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return undefined;
  const value = BigInt(text);
  return fits(value) ? value : undefined;
}

/**
 * An int64 in a document read by `parseJson` (docs/service.md 2). As in JSON Schema, `3.0` and `3e0` are the integer 3;
 * `1.5` and `"3"` are not integers.
 */
export const int64 = z.pipe(
  z.custom<unknown>((value) => integerOf(value) !== undefined, fieldError(range)),
  z.transform((value: unknown) => integerOf(value) ?? 0n),
);

function integerOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return fits(value) ? value : undefined;
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : undefined;
  return isLosslessNumber(value) ? integerOfText(value.toString()) : undefined;
}

/** Converts the text of a JSON number; undefined if the number is not an int64. Takes time linear in the length. */
function integerOfText(text: string): bigint | undefined {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  let end = digits.length;
  while (digits[end - 1] === '0') end--;
  if (end === 0) return 0n;
  const zeros = Number(exponent) - fraction.length + digits.length - end;
  // The exponent may be huge, so check the number of digits before building them.
  if (zeros < 0 || end + zeros > MAX_DIGITS) return undefined;
  const value = BigInt(sign + digits.slice(0, end) + '0'.repeat(zeros));
  return fits(value) ? value : undefined;
}

/** An int64 in a path, a query or a command-line argument, in canonical decimal form. */
export const int64Text = z.pipe(
  z.custom<string>(
    (value) => typeof value === 'string' && parseInt64(value) !== undefined,
    fieldError(range),
  ),
  z.transform((text: string) => BigInt(text)),
);
