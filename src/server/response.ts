import type { IncomingMessage } from 'node:http';
import { header } from '../contract/headers.ts';
import type { RateLimitDecision, RateLimitWindow } from '../store/limiter.ts';

const SECOND = 1_000;

/** Headers as in `rawHeaders` of Node: name, value, name, value, … */
export type RawHeaders = readonly string[];

/**
 * A response, without the headers that every response gets. `contentType` is by default `application/json`. With the
 * encoding `latin1`, each character of `body` is one byte of the text in UTF-8.
 */
export type ServiceResponse = {
  status: number;
  headers?: RawHeaders;
  body: string;
  contentType?: string;
  encoding?: 'utf8' | 'latin1';
};

export const json = (content: object): ServiceResponse => ({ status: 200, body: JSON.stringify(content) });

/** Carries out a request outside the API. Access has been checked. */
export type Handler = (request: IncomingMessage) => ServiceResponse | Promise<ServiceResponse>;

/** A response with all of its headers. `bytes` is the length of the body. */
export type SentResponse = Required<Pick<ServiceResponse, 'headers' | 'body' | 'encoding'>> & {
  bytes: number;
};

/** Completes a response with the headers of its body and of the rate limit (docs/service.md 8.3), and with `more` headers. */
export function completeResponse(
  { headers = [], body, contentType = 'application/json', encoding = 'utf8' }: ServiceResponse,
  window: RateLimitWindow,
  more: RawHeaders,
): SentResponse {
  const bytes = encoding === 'latin1' ? body.length : Buffer.byteLength(body);
  const lines: string[] = [];
  if (bytes > 0) lines.push('Content-Type', contentType, 'Content-Length', String(bytes));
  lines.push(header.rateLimit, String(window.limit), header.rateLimitRemaining, String(window.remaining));
  lines.push(header.rateLimitReset, String(Math.ceil(window.resetAt / SECOND)));
  // A browser must not take the body for a script or a page, whatever it contains.
  lines.push('X-Content-Type-Options', 'nosniff');
  for (const text of more) lines.push(text);
  for (const text of headers) lines.push(text);
  return { headers: lines, body, encoding, bytes };
}

/** The largest integer in a structured header (RFC 9651, 3.3.1). */
const MAX_INTEGER = 999_999_999_999_999;

/** The headers with both windows of the caller (docs/service.md 8.3, D17). */
export function windowHeaders({ windows, now }: RateLimitDecision): string[] {
  const [minute, day] = [headerValuesOf(windows.minute, now), headerValuesOf(windows.day, now)];
  return [
    header.rateLimitPolicy,
    `"minute";q=${minute.limit};w=60, "day";q=${day.limit};w=86400`,
    header.rateLimitWindows,
    `"minute";r=${minute.remaining};t=${minute.seconds}, "day";r=${day.remaining};t=${day.seconds}`,
  ];
}

const headerValuesOf = ({ limit, remaining, resetAt }: RateLimitWindow, now: number) => ({
  limit: Math.min(limit, MAX_INTEGER),
  remaining: Math.min(remaining, MAX_INTEGER),
  seconds: Math.ceil((resetAt - now) / SECOND),
});

const PREFLIGHT_SECONDS = 600;

/** The value of Access-Control-Allow-Origin: the origin of the request if `origins` has it, else `*` if it has that; or undefined. */
const allowedOrigin = ({ headers }: IncomingMessage, origins: readonly string[]): string | undefined =>
  [headers.origin, '*'].find((origin) => origin !== undefined && origins.includes(origin));

/** The CORS headers of a response. `origins` lists the allowed origins; `*` allows all. */
export function corsHeaders(request: IncomingMessage, origins: readonly string[]): string[] {
  if (origins.length === 0) return [];
  // The response depends on the origin, so caches must not share it between origins.
  const headers = ['Vary', 'Origin'];
  const origin = allowedOrigin(request, origins);
  if (origin === undefined) return headers;
  headers.push('Access-Control-Allow-Origin', origin);
  // For requests with credentials, browsers do not accept `*`.
  if (origin === '*') headers.push('Access-Control-Expose-Headers', '*');
  else headers.push('Access-Control-Allow-Credentials', 'true', 'Access-Control-Expose-Headers', ALL_HEADERS);
  return headers;
}

const ALL_HEADERS = Object.values(header).join(', ');

/**
 * The response to a CORS preflight request of an allowed origin; undefined for any other request. It comes before every
 * check, because pages cannot read why a preflight was refused, but can read the response to the actual request.
 */
export function preflightResponse(
  request: IncomingMessage,
  origins: readonly string[],
): ServiceResponse | undefined {
  const { method, headers } = request;
  const requested = headers['access-control-request-method'];
  if (method !== 'OPTIONS' || requested === undefined || allowedOrigin(request, origins) === undefined)
    return undefined;
  const names = headers['access-control-request-headers'] ?? header.authorization;
  return {
    status: 204,
    headers: [
      ...['Access-Control-Allow-Methods', requested],
      ...['Access-Control-Allow-Headers', names],
      ...['Access-Control-Max-Age', String(PREFLIGHT_SECONDS)],
    ],
    body: '',
  };
}
