import { header } from '../contract/headers.ts';

const READABLE = [
  header.deprecation,
  header.idempotencyReplayed,
  header.idempotencySupported,
  header.link,
  header.preferenceApplied,
  header.rateLimit,
  header.rateLimitRemaining,
  header.rateLimitReset,
  header.retryAfter,
  header.sunset,
].join(', ');
const SENDABLE = [header.authorization, 'Content-Type', header.idempotencyKey, header.prefer].join(', ');
const PREFLIGHT_SECONDS = 600;

/** What lets a page of one of the origins read an answer; `*` stands for every origin. Nothing without `--cors`. */
export function corsHeaders(origin: string | undefined, origins: readonly string[]): Record<string, string> {
  if (origins.length === 0) return {};
  // The answer differs by origin: a cache must not hand one page's to another.
  const vary = { Vary: 'Origin' };
  const allowed = origins.includes('*') ? '*' : origins.find((each) => each === origin);
  if (allowed === undefined) return vary;
  return { ...vary, 'Access-Control-Allow-Origin': allowed, 'Access-Control-Expose-Headers': READABLE };
}

/** What a preflight asks for besides; `methods` are those of the resource. */
export function preflightHeaders(origins: readonly string[], methods: string): Record<string, string> {
  if (origins.length === 0) return {};
  return {
    'Access-Control-Allow-Methods': methods,
    'Access-Control-Allow-Headers': SENDABLE,
    'Access-Control-Max-Age': String(PREFLIGHT_SECONDS),
  };
}
