import type { ServerResponse } from 'node:http';
import { header } from '../contract/headers.ts';
import type { RateLimitDecision, RateLimitWindow } from '../store/limits/limiter.ts';

const SECOND = 1_000;

export type ResponseHeaders = Readonly<Record<string, string>>;

/** The body of a response. `contentType` is by default `application/json`. */
export type ResponseContent = { body: string; contentType?: string };

/**
 * A response, without the headers that every response gets. With `latin1`, each character of `body` is one byte of the
 * UTF-8 text.
 */
export type ServiceResponse = ResponseContent & {
  status: number;
  headers: ResponseHeaders;
  encoding?: 'utf8' | 'latin1';
};

/** What was sent. `headers` has names and values by turns; `bytes` is the length of the body. */
export type SentResponse = Required<Pick<ServiceResponse, 'body' | 'encoding'>> & {
  headers: readonly string[];
  bytes: number;
};

/** Sends a response with the rate-limit headers of `window` and the headers that `more` adds. */
export function sendResponse(
  response: ServerResponse,
  { status, headers, body, contentType = 'application/json', encoding = 'utf8' }: ServiceResponse,
  window: RateLimitWindow,
  more: ResponseHeaders,
): SentResponse {
  const lines: string[] = [];
  const sent = sentResponse(lines, body, encoding);
  if (sent.bytes > 0) lines.push('Content-Type', contentType, 'Content-Length', String(sent.bytes));
  for (const part of [rateLimitHeaders(window), more, headers]) {
    for (const name in part) lines.push(name, part[name] ?? '');
  }
  response.writeHead(status, lines);
  response.end(body, encoding);
  return sent;
}

export const sentResponse = (
  headers: readonly string[],
  body: string,
  encoding: SentResponse['encoding'] = 'utf8',
): SentResponse => ({
  headers,
  body,
  encoding,
  bytes: encoding === 'latin1' ? body.length : Buffer.byteLength(body),
});

/** The response to an OPTIONS request. `allow` lists the methods of the target, and `more` has additional headers. */
export const optionsResponse = (allow: string, more: ResponseHeaders = {}): ServiceResponse => ({
  status: 204,
  headers: { [header.allow]: allow, ...more },
  body: '',
});

/** The three rate-limit headers of every response (docs/service.md 8.3). */
export const rateLimitHeaders = (window: RateLimitWindow): ResponseHeaders => ({
  [header.rateLimit]: String(window.limit),
  [header.rateLimitRemaining]: String(window.remaining),
  [header.rateLimitReset]: String(Math.ceil(window.resetAt / SECOND)),
});

/** The largest integer in a structured header (RFC 9651, 3.3.1). */
const MAX_INTEGER = 999_999_999_999_999;

/** The headers with both windows of the caller (docs/service.md 8.3, D17). */
export function windowHeaders({ windows, now }: RateLimitDecision): Record<string, string> {
  const [minute, day] = [stateOf(windows.minute, now), stateOf(windows.day, now)];
  return {
    [header.rateLimitPolicy]: `"minute";q=${minute.limit};w=60, "day";q=${day.limit};w=86400`,
    [header.rateLimitWindows]: `"minute";r=${minute.remaining};t=${minute.seconds}, "day";r=${day.remaining};t=${day.seconds}`,
  };
}

const stateOf = ({ limit, remaining, resetAt }: RateLimitWindow, now: number) => ({
  limit: Math.min(limit, MAX_INTEGER),
  remaining: Math.min(remaining, MAX_INTEGER),
  seconds: Math.ceil((resetAt - now) / SECOND),
});

/** The value of Retry-After: whole seconds, rounded up, at least 1 (D7). */
export const retryAfterSeconds = (milliseconds: number): number =>
  Math.max(1, Math.ceil(milliseconds / SECOND));
