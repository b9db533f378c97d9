/** The headers of the contract, as the service writes them; a reader compares them without case. */
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
  rateLimitRemaining: 'X-RateLimit-Remaining',
  rateLimitReset: 'X-RateLimit-Reset',
  retryAfter: 'Retry-After',
  sunset: 'Sunset',
  wwwAuthenticate: 'WWW-Authenticate',
} as const;

/** What a key may consist of: visible ASCII, so that no key can break out of a header or a message. */
export const API_KEY_PATTERN = /^[\x21-\x7e]+$/;

/** A name or an address as a Host header has it, without its port. */
export const HOST_NAME_PATTERN = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)$/i;
