import { header } from '../contract/headers.ts';
import type { HeaderLines } from './response.ts';

const EXPOSED_HEADERS = [
  header.deprecation,
  header.idempotencyReplayed,
  header.idempotencySupported,
  header.link,
  header.preferenceApplied,
  header.rateLimit,
  header.rateLimitPolicy,
  header.rateLimitRemaining,
  header.rateLimitReset,
  header.rateLimitWindows,
  header.requestId,
  header.retryAfter,
  header.sunset,
].join(', ');
const ALLOWED_HEADERS = [
  header.authorization,
  'Content-Type',
  header.idempotencyKey,
  header.prefer,
  header.requestId,
].join(', ');
const PREFLIGHT_SECONDS = 600;

/** The CORS headers of a response to `origin`. `origins` lists the allowed origins; `*` allows all. */
export function corsHeaders(origin: string | undefined, origins: readonly string[]): HeaderLines {
  // The response depends on the origin, so caches must not share it between origins.
  const vary = ['Vary', 'Origin'];
  const allowed = origins.includes('*') ? '*' : origins.find((each) => each === origin);
  if (allowed === undefined) return vary;
  return [...vary, 'Access-Control-Allow-Origin', allowed, 'Access-Control-Expose-Headers', EXPOSED_HEADERS];
}

/** The additional headers of a response to a preflight request. `methods` lists the methods of the path. */
export function preflightHeaders(origins: readonly string[], methods: string): HeaderLines {
  if (origins.length === 0) return [];
  return [
    ...['Access-Control-Allow-Methods', methods],
    ...['Access-Control-Allow-Headers', ALLOWED_HEADERS],
    ...['Access-Control-Max-Age', String(PREFLIGHT_SECONDS)],
  ];
}
