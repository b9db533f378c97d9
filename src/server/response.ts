import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { header } from '../contract/headers.ts';
import type { RateLimitDecision, RateLimitWindow } from '../store/limits/limiter.ts';
import type { RequestContext } from './request/context.ts';

const SECOND = 1_000;

/** A value, or a promise of it. Ordinary requests are handled without promises, which are slower (bench/README.md). */
export type MaybePromise<Value> = Value | Promise<Value>;

/** Headers as in `rawHeaders` of Node: name, value, name, value, … */
export type RawHeaders = readonly string[];

/**
 * A response, without the headers that every response gets. `contentType` is by default `application/json`. With `latin1`,
 * each character of `body` is one byte of the UTF-8 text.
 */
export type ServiceResponse = {
  status: number;
  headers?: RawHeaders;
  body: string;
  contentType?: string;
  encoding?: 'utf8' | 'latin1';
};

/** Carries out a request outside the API. Access has been checked. */
export type Handler = (request: IncomingMessage, context: RequestContext) => MaybePromise<ServiceResponse>;

/** A response with all of its headers. `bytes` is the length of the body. */
export type SentResponse = Required<Pick<ServiceResponse, 'headers' | 'body' | 'encoding'>> & {
  bytes: number;
};

/** Completes a response with the headers that every response has (docs/service.md 8.3 and 10), and with `more`. */
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
  for (const text of more) lines.push(text);
  for (const text of headers) lines.push(text);
  return { headers: lines, body, encoding, bytes };
}

export function send(
  response: ServerResponse,
  status: number,
  { headers, body, encoding }: SentResponse,
): void {
  response.writeHead(status, headers as string[]);
  response.end(body, encoding);
}

/**
 * Sends a response to a client that has closed its sending side. The client may still wait for the response. If it has
 * disconnected, its operating system resets the connection when the headers arrive, and sending the body fails.
 *
 * @returns whether the client may have received the response
 */
export async function sendToHalfClosed(
  socket: Socket,
  response: ServerResponse,
  status: number,
  { headers, body, encoding }: SentResponse,
): Promise<boolean> {
  response.writeHead(status, headers as string[]);
  response.flushHeaders();
  await setImmediate();
  response.end(body, encoding);
  await setImmediate();
  return socket.errored === null;
}

/** The response to an OPTIONS request. `allow` lists the methods of the target, and `more` has additional headers. */
export const optionsResponse = (allow: string, more: RawHeaders = []): ServiceResponse => ({
  status: 204,
  headers: [header.allow, allow, ...more],
  body: '',
});

/** The largest integer in a structured header (RFC 9651, 3.3.1). */
const MAX_INTEGER = 999_999_999_999_999;

/** The headers with both windows of the caller (docs/service.md 8.3, D17). */
export function windowHeaders({ windows, now }: RateLimitDecision): string[] {
  const [minute, day] = [stateOf(windows.minute, now), stateOf(windows.day, now)];
  return [
    header.rateLimitPolicy,
    `"minute";q=${minute.limit};w=60, "day";q=${day.limit};w=86400`,
    header.rateLimitWindows,
    `"minute";r=${minute.remaining};t=${minute.seconds}, "day";r=${day.remaining};t=${day.seconds}`,
  ];
}

const stateOf = ({ limit, remaining, resetAt }: RateLimitWindow, now: number) => ({
  limit: Math.min(limit, MAX_INTEGER),
  remaining: Math.min(remaining, MAX_INTEGER),
  seconds: Math.ceil((resetAt - now) / SECOND),
});

const PREFLIGHT_SECONDS = 600;

/** The CORS headers of a response to `origin`. `origins` lists the allowed origins; `*` allows all. */
export function corsHeaders(origin: string | undefined, origins: readonly string[]): RawHeaders {
  // The response depends on the origin, so caches must not share it between origins.
  const vary = ['Vary', 'Origin'];
  const allowed = origins.includes('*') ? '*' : origins.find((each) => each === origin);
  if (allowed === undefined) return vary;
  return [...vary, 'Access-Control-Allow-Origin', allowed, 'Access-Control-Expose-Headers', '*'];
}

/** The additional headers of a preflight response. Authorization is named, because `*` does not include it. */
export function preflightHeaders(origins: readonly string[], methods: string): RawHeaders {
  if (origins.length === 0) return [];
  return [
    ...['Access-Control-Allow-Methods', methods],
    ...['Access-Control-Allow-Headers', `${header.authorization}, *`],
    ...['Access-Control-Max-Age', String(PREFLIGHT_SECONDS)],
  ];
}
