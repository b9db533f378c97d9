import { header } from '../contract/headers.ts';
import {
  type HttpHeaders,
  type HttpResponse,
  parseHttpDate,
  readHeader,
  readHeaderList,
} from './response.ts';

const SECOND = 1_000;
const MINUTE = 60_000;

/** A rate-limit window. `remaining` is the number of requests left, `delay` the milliseconds until its end. */
type Window = Record<'limit' | 'remaining' | 'delay', number | undefined>;

/** A window whose `remaining` and end (`reset`, in milliseconds since the epoch) are known. */
export type RateLimit = { limit: number | undefined; remaining: number; reset: number };

/**
 * The delay that a 429 requests, in milliseconds from now; undefined if it requests none. Retry-After counts, or else the
 * latest end of the windows that have no requests left or do not report `remaining`, or else the latest end of all windows.
 */
export function requestedDelay(headers: HttpHeaders, now: number): number | undefined {
  const windows = readWindows(headers, now);
  return parseRetryAfter(headers, now) ?? exhaustedDelay(windows, 0) ?? longestDelay(windows);
}

/** The delay before a request is sent again after a 429, in milliseconds: at least a second, by default a minute. */
export const rateLimitDelay = (headers: HttpHeaders, now: number): number =>
  Math.max(requestedDelay(headers, now) ?? MINUTE, SECOND);

/**
 * How long no request with this API key may be sent after a response, in milliseconds. After a 429: the delay before a
 * retry. Otherwise: the time until all used-up rate-limit windows have ended; undefined if there is no such window.
 */
export const coolDownAfter = ({ status, headers }: HttpResponse, now: number): number | undefined =>
  status === 429 ? rateLimitDelay(headers, now) : exhaustedDelay(readWindows(headers, now), 1);

/** The delay in Retry-After (seconds or a date), in milliseconds; undefined if the header is missing or not valid. */
export function parseRetryAfter(headers: HttpHeaders, now: number): number | undefined {
  const text = readHeader(headers, header.retryAfter)?.trim() ?? '';
  // RFC 9110 does not allow fractions of a second, but some services send them.
  return /^\d+(\.\d+)?$/.test(text) ? Math.ceil(Number(text) * SECOND) : delayUntilDate(text, headers, now);
}

/**
 * The rate-limit window with the fewest requests left, if the response reports any; of equal ones, that with the latest end.
 * Headers usually have the time left, rounded up to seconds, so the end is rounded down.
 */
export function scarcestLimit(headers: HttpHeaders, now: number): RateLimit | undefined {
  const limits = readWindows(headers, now).flatMap(({ limit, remaining, delay }) => {
    if (remaining === undefined || delay === undefined) return [];
    return [{ limit, remaining, reset: Math.floor((now + delay) / SECOND) * SECOND }];
  });
  return limits.sort((one, other) => one.remaining - other.remaining || other.reset - one.reset)[0];
}

/**
 * Reads the headers of draft-ietf-httpapi-ratelimit-headers and their predecessors, in these forms:
 *
 * - one window without a name: `X-RateLimit-Reset: 30` or `RateLimit-Reset: 30`, each with `-Remaining` and `-Limit`; or
 *   `RateLimit: limit=60, remaining=0, reset=30`
 * - windows with names: `RateLimit: "minute";r=0;t=30, "day";r=70;t=3600`, with their limits in another header, as in
 *   `RateLimit-Policy: "minute";q=60;w=60, "day";q=1000;w=86400`
 */
function readWindows(headers: HttpHeaders, now: number): Window[] {
  const elements = readHeaderList(headers, header.rateLimitWindows);
  const textOf = (name: 'Limit' | 'Remaining' | 'Reset') =>
    (readHeader(headers, `X-RateLimit-${name}`) ?? readHeader(headers, `RateLimit-${name}`))?.trim() ??
    elements.flatMap(({ value }) => value.match(new RegExp(`^${name}=(.*)$`, 'i'))?.[1] ?? [])[0];
  const policies = readHeaderList(headers, header.rateLimitPolicy);
  return [
    {
      limit: parseNumber(textOf('Limit')),
      remaining: parseNumber(textOf('Remaining')),
      delay: delayUntil(textOf('Reset'), headers, now),
    },
    ...elements.map(({ value: name, parameters }) => ({
      limit: parseNumber(policies.find(({ value }) => value === name)?.parameters['q']),
      remaining: parseNumber(parameters['r']),
      delay: delayUntil(parameters['t'], headers, now),
    })),
  ];
}

/** The milliseconds until the end of a window, from a delay in seconds, a Unix time or a date; otherwise undefined. */
function delayUntil(text: string | undefined, headers: HttpHeaders, now: number): number | undefined {
  const end = parseNumber(text);
  if (end === undefined) return delayUntilDate(text, headers, now);
  // Numbers below a billion are delays. From 100 billion on (the year 5138 in seconds), they are milliseconds.
  if (end < 1e9) return end < 0 ? undefined : Math.ceil(end * SECOND);
  const time = end < 1e11 ? end * SECOND : end;
  return Math.max(0, Math.ceil(time - serverTime(headers, now)));
}

/** The milliseconds until an HTTP-date or a date of ISO 8601 with a time zone; undefined for another text. */
function delayUntilDate(text = '', headers: HttpHeaders, now: number): number | undefined {
  const isIso = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text);
  const time = isIso ? Date.parse(text) : parseHttpDate(text);
  return time === undefined || Number.isNaN(time) ? undefined : Math.max(0, time - serverTime(headers, now));
}

/** Reads a number such as `0`, `-1` or `0.5`; undefined for any other text. */
const parseNumber = (text = ''): number | undefined =>
  /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;

function longestDelay(windows: readonly Window[]): number | undefined {
  const delays = windows.flatMap(({ delay }) => delay ?? []);
  return delays.length === 0 ? undefined : Math.max(...delays);
}

/** The longest delay of the windows without requests left. If a window does not report `remaining`, `assumed` counts. */
const exhaustedDelay = (windows: readonly Window[], assumed: number): number | undefined =>
  longestDelay(windows.filter(({ remaining = assumed }) => remaining <= 0));

/** The time in the Date header, or else `now`. Headers are compared with it, because the local clock may be wrong. */
const serverTime = (headers: HttpHeaders, now: number): number =>
  parseHttpDate(readHeader(headers, 'Date')?.trim() ?? '') ?? now;
