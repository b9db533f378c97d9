import * as z from 'zod/mini';

/** Header names as the service writes them. Compare them case-insensitively when reading. */
export const header = {
  authorization: 'Authorization',
  allow: 'Allow',
  deprecation: 'Deprecation',
  idempotencyKey: 'Idempotency-Key',
  idempotencyReplayed: 'Idempotency-Replayed',
  idempotencySupported: 'Idempotency-Supported',
  link: 'Link',
  prefer: 'Prefer',
  preferenceApplied: 'Preference-Applied',
  rateLimit: 'X-RateLimit-Limit',
  rateLimitPolicy: 'RateLimit-Policy',
  rateLimitRemaining: 'X-RateLimit-Remaining',
  rateLimitReset: 'X-RateLimit-Reset',
  rateLimitWindows: 'RateLimit',
  requestId: 'X-Request-Id',
  retryAfter: 'Retry-After',
  sunset: 'Sunset',
  wwwAuthenticate: 'WWW-Authenticate',
} as const;

/** The form of an API key: visible ASCII only, so that a key cannot add a line to a header or a message. */
export const API_KEY_PATTERN = /^[\x21-\x7e]+$/;

/** A host name, IPv4 address or bracketed IPv6 address, as in a Host header without the port. */
export const HOST_NAME_PATTERN = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)$/i;

/** A loopback name or address as it appears in a Host header or in the host name of a URL. */
export const LOOPBACK_NAME_PATTERN = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i;

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;

/** The key in an Idempotency-Key header, without its quotes. It makes a creation safe to retry (docs/service.md 4.6). */
export const IdempotencyKey = z
  .string()
  .check(z.regex(IDEMPOTENCY_KEY, 'must be 1 to 255 printable ASCII characters'));

/** How long the service remembers an Idempotency-Key after the creation, in milliseconds (docs/service.md, D10). */
export const IDEMPOTENCY_KEY_LIFETIME_MS = 24 * 60 * 60 * 1_000;

// A quoted string (RFC 9651, 3.3.3), or, because many clients send no quotes, characters of a token (3.3.4) and `=`.
// Without quotes, `<` and `{` are not valid, so a placeholder that was not replaced, such as `<string>`, is rejected.
const KEY_IN_HEADER = /^(?:"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"|([\w!#$%&'*+.^`|~:/=-]+))$/;

/** Formats an idempotency key as a header value, which is a quoted string. */
export const encodeIdempotencyKey = (key: string): string => `"${key.replace(/["\\]/g, '\\$&')}"`;

/** Parses a header value into an idempotency key; undefined if the value is not valid. */
export function decodeIdempotencyKey(value: string): string | undefined {
  const match = KEY_IN_HEADER.exec(value);
  const key = match?.[1]?.replace(/\\(["\\])/g, '$1') ?? match?.[2];
  return key !== undefined && IDEMPOTENCY_KEY.test(key) ? key : undefined;
}
