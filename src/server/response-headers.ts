import { header } from '../contract/headers.ts';
import { API_PREFIX, type Operation, type OperationName, operations } from '../contract/operations.ts';
import type { Window } from './limits/limiter.ts';

const SECOND = 1_000;
const NONE = {};

/** The three headers of every response (specification 8.3). */
export function rateLimitHeaders({ limit, remaining, resetAt }: Window): Record<string, string> {
  return {
    [header.rateLimit]: String(limit),
    [header.rateLimitRemaining]: String(remaining),
    [header.rateLimitReset]: String(Math.ceil(resetAt / SECOND)),
  };
}

/** Retry-After in whole seconds, rounded up and never 0 (design D7). */
export function retryAfter(milliseconds: number): number {
  return Math.max(1, Math.ceil(milliseconds / SECOND));
}

/** The announcement of an operation's end (design D12), on each of its answers. */
export function deprecationHeaders(name: OperationName): Readonly<Record<string, string>> {
  const { deprecated }: Operation = operations[name];
  if (deprecated === undefined) return NONE;
  return {
    [header.deprecation]: `@${deprecated.since.getTime() / SECOND}`,
    [header.sunset]: deprecated.sunset.toUTCString(),
    [header.link]: `<${API_PREFIX}${deprecated.successor}>; rel="successor-version"`,
  };
}
