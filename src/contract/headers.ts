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

/** The form of an API key: visible ASCII only, so that a key cannot inject text into a header or a message. */
export const API_KEY_PATTERN = /^[\x21-\x7e]+$/;

/** A host name, IPv4 address or bracketed IPv6 address, as in a Host header without the port. */
export const HOST_NAME_PATTERN = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)$/i;

/** A loopback name as it appears in a Host header or in the host name of a URL. */
export const LOOPBACK_NAME_PATTERN = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i;
