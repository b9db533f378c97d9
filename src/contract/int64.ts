import * as z from 'zod/mini';
import { says } from './issues.ts';

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

const range = `must be an integer from ${INT64_MIN} to ${INT64_MAX}, in digits`;

const fits = (value: bigint) => value >= INT64_MIN && value <= INT64_MAX;

/** Reads canonical decimal digits (no sign but `-`, no leading zero, no exponent); undefined for anything else. */
export function parseInt64(text: string): bigint | undefined {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return undefined;
  const value = BigInt(text);
  return fits(value) ? value : undefined;
}

/**
 * An int64 in a JSON document (specification 2.1). The exact parser of json.ts hands over a `number` where that is
 * exact and a `bigint` above; `1.5`, `1e3` and `"3"` arrive as something else and are refused.
 */
export const int64 = z.pipe(
  z.custom<number | bigint>(
    (value) => (typeof value === 'bigint' ? fits(value) : Number.isSafeInteger(value)),
    says(range),
  ),
  z.transform((value: number | bigint) => BigInt(value)),
);

/** An int64 in a path, a query or an argument: text of digits. */
export const int64Text = z.pipe(
  z.custom<string>((value) => typeof value === 'string' && parseInt64(value) !== undefined, says(range)),
  z.transform((text: string) => BigInt(text)),
);
