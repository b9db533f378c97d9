import * as z from 'zod/mini';

/** What names a creation, so that it can be repeated (design D10): 1 to 255 visible ASCII characters and spaces. */
export const IdempotencyKey = z
  .string()
  .check(z.regex(/^[\x20-\x7e]{1,255}$/, 'must be 1 to 255 ASCII characters without controls'));

/** How long a service remembers a key, in milliseconds from the time of its record (design D10). */
export const IDEMPOTENCY_MILLISECONDS = 24 * 60 * 60 * 1_000;

// A structured-field string (RFC 8941), or the bare token that many clients send.
const HEADER = /^(?:"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"|([\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]+))$/;

/** The key as its header has it. */
export const encodeIdempotencyKey = (key: string): string => `"${key.replace(/["\\]/g, '\\$&')}"`;

/** The key that a header holds; undefined where it holds none. */
export function decodeIdempotencyKey(value: string): string | undefined {
  const match = HEADER.exec(value);
  const key = match?.[1]?.replace(/\\(["\\])/g, '$1') ?? match?.[2];
  return z.safeParse(IdempotencyKey, key).data;
}
