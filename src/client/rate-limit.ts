import { header } from '../contract/headers.ts';
import {
  type HttpHeaders,
  type HttpResponse,
  parseHttpDate,
  readHeader,
  readHeaderList,
  readHeaders,
} from './response.ts';

const SECOND = 1_000;

/** About 3,000 years, in milliseconds. Longer delays are shortened, so that the time after a delay is a valid Date. */
const MAX_DELAY = 1e14;

/** A window's end that is at least this number is a Unix time in milliseconds. In seconds, it would be the year 5138. */
const MIN_UNIX_MILLISECONDS = 1e11;

/** A window's end that is at least this number is a Unix time in seconds. A smaller number is a delay in seconds. */
const MIN_UNIX_SECONDS = 1e9;

/**
 * A rate-limit window that a response reports. `name` is set if the service names the window. `reset` is the end of the
 * window, in milliseconds since the epoch.
 */
export type RateLimit = {
  name?: string | undefined;
  limit: number | undefined;
  remaining: number;
  reset: number;
};

/** A window as its headers describe it. `delay` is the time until its end, in milliseconds. */
type ReportedWindow = Pick<RateLimit, 'name' | 'limit'> & Record<'remaining' | 'delay', number | undefined>;

/**
 * The delay that a 429 requests, in milliseconds from now; undefined if it requests none. Retry-After counts, or else
 * the latest end of the rate-limit windows without requests left, or else that of all windows.
 */
export function requestedDelay(headers: HttpHeaders, now: number): number | undefined {
  const windows = readWindows(headers, now);
  const exhausted = windows.filter(({ remaining = 0 }) => remaining <= 0);
  return parseRetryAfter(headers, now) ?? longestDelay(exhausted) ?? longestDelay(windows);
}

/** The milliseconds until all rate-limit windows without requests left have ended; undefined if no end is known. */
export const delayIfExhausted = (headers: HttpHeaders, now: number): number | undefined =>
  longestDelay(readWindows(headers, now).filter(({ remaining = 1 }) => remaining <= 0));

/** The longest delay in Retry-After headers (seconds or dates), in milliseconds; undefined without a valid one. */
export function parseRetryAfter(headers: HttpHeaders, now: number): number | undefined {
  const delays = splitValues(headers, header.retryAfter).map((text) =>
    // RFC 9110 does not allow fractions of a second, but some services send them.
    /^\d+(\.\d+)?$/.test(text) ? Math.ceil(Number(text) * SECOND) : delayUntilDate(text, headers, now),
  );
  return maximum(delays);
}

/**
 * Reads the rate-limit windows whose end and requests left are known: those in RateLimit, or else the one of the
 * X-RateLimit headers. Headers usually have the time left, rounded up to seconds, so ends are rounded down. The header
 * RateLimit-Policy has the limits of the windows in RateLimit, as in `"minute";q=60;w=60, "day";q=1000;w=86400`.
 */
export function readRateLimits(headers: HttpHeaders, now: number): RateLimit[] {
  const limits = readWindows(headers, now).flatMap((window) => {
    const { name, limit, remaining } = window;
    const delay = longestDelay([window]);
    if (remaining === undefined || delay === undefined) return [];
    return [{ name, limit, remaining, reset: Math.floor((now + delay) / SECOND) * SECOND }];
  });
  const named = limits.filter(({ name }) => name !== undefined);
  return named.length > 0 ? named : limits;
}

/** The rate-limit window with the fewest requests left; undefined if the response reports none. */
export const readScarcestRateLimit = (headers: HttpHeaders, now: number): RateLimit | undefined =>
  readRateLimits(headers, now).sort(
    (one, other) => one.remaining - other.remaining || other.reset - one.reset,
  )[0];

/**
 * Reads all forms of the headers of draft-ietf-httpapi-ratelimit-headers and their predecessors:
 *
 * - one window without a name: `X-RateLimit-Reset: 30` or `RateLimit-Reset: 30`, each with `-Remaining` and `-Limit`; or
 *   `RateLimit: limit=60, remaining=0, reset=30`. If a value is repeated, the smallest number of remaining requests and the
 *   latest end count.
 * - windows with names: `RateLimit: "minute";r=0;t=30, "day";r=70;t=3600`
 */
function readWindows(headers: HttpHeaders, now: number): ReportedWindow[] {
  const elements = readHeaderList(headers, header.rateLimitWindows);
  const valuesOf = (name: 'Limit' | 'Remaining' | 'Reset') => [
    ...splitValues(headers, `X-RateLimit-${name}`),
    ...splitValues(headers, `RateLimit-${name}`),
    ...elements.flatMap(({ value }) => value.match(new RegExp(`^${name}=(.*)$`, 'i'))?.[1] ?? []),
  ];
  const numbersOf = (name: 'Limit' | 'Remaining') => valuesOf(name).map(parseNumber).filter(isDefined);
  const remaining = numbersOf('Remaining');
  const policies = readHeaderList(headers, header.rateLimitPolicy);
  return [
    {
      name: undefined,
      limit: numbersOf('Limit')[0],
      remaining: remaining.length === 0 ? undefined : Math.min(...remaining),
      delay: maximum(valuesOf('Reset').map((end) => delayUntil(end, headers, now))),
    },
    ...elements.map(({ value: name, parameters }) => ({
      name,
      limit: parseNumber(policies.find(({ value }) => value === name)?.parameters['q']),
      remaining: parseNumber(parameters['r']),
      delay: delayUntil(parameters['t'], headers, now),
    })),
  ];
}

/** The milliseconds until the end of a window: a delay in seconds, a Unix time or a date; undefined for another text. */
function delayUntil(text: string | undefined, headers: HttpHeaders, now: number): number | undefined {
  const end = parseNumber(text);
  if (end === undefined) return delayUntilDate(text, headers, now);
  if (end < MIN_UNIX_SECONDS) return end < 0 ? undefined : Math.ceil(end * SECOND);
  const time = end >= MIN_UNIX_MILLISECONDS ? end : end * SECOND;
  return Math.max(0, Math.ceil(time - serverTime(headers, now)));
}

/** The milliseconds until an HTTP-date or a date of ISO 8601 with a time zone; undefined for another text. */
function delayUntilDate(text = '', headers: HttpHeaders, now: number): number | undefined {
  const isIso = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text);
  const time = isIso ? Date.parse(text) : parseHttpDate(text);
  return time === undefined || Number.isNaN(time) ? undefined : Math.max(0, time - serverTime(headers, now));
}

/** Reads a number such as `0`, `-1` or `0.5`; undefined for any other text. */
const parseNumber = (text: string | undefined): number | undefined =>
  text !== undefined && /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;

const isDefined = (value: number | undefined): value is number => value !== undefined;

function maximum(delays: readonly (number | undefined)[]): number | undefined {
  const defined = delays.filter(isDefined);
  return defined.length === 0 ? undefined : Math.min(Math.max(...defined), MAX_DELAY);
}

const longestDelay = (windows: readonly ReportedWindow[]): number | undefined =>
  maximum(windows.map(({ delay }) => delay));

/** The values of a header, which the service may have repeated, or a proxy may have joined with commas. */
const splitValues = (headers: HttpHeaders, name: string): string[] =>
  // Do not split at the comma of an HTTP-date.
  readHeaders(headers, name).flatMap((text) => text.split(/,(?! \d\d[ -][A-Z])/).map((part) => part.trim()));

/** The time in the Date header, or else `now`. Headers are compared with it, because the local clock may be wrong. */
const serverTime = (headers: HttpHeaders, now: number): number =>
  parseHttpDate(readHeader(headers, 'Date')?.trim() ?? '') ?? now;

/** The wait after a 429 that does not say how long to wait, and the shortest wait after any 429. */
const UNKNOWN_RATE_LIMIT = 60_000;
const MIN_RATE_LIMIT = 1_000;

/** The longest time for which all processes of this user pause after a 503. */
const MAX_METHOD_PAUSE = 60_000;

/** The delay before a request is sent again after a 429, in milliseconds. */
export const rateLimitDelay = (headers: HttpResponse['headers'], now: number): number =>
  Math.max(requestedDelay(headers, now) ?? UNKNOWN_RATE_LIMIT, MIN_RATE_LIMIT);

/**
 * How long no request with this API key may be sent after a response, in milliseconds. After a 429: the delay before a
 * retry. Otherwise: the time until all used-up rate-limit windows have ended; undefined if there is no such window.
 */
export const coolDownAfter = ({ status, headers }: HttpResponse, now: number): number | undefined =>
  status === 429 ? rateLimitDelay(headers, now) : delayIfExhausted(headers, now);

/**
 * How long requests with the same method must wait after a 503 with Retry-After, in milliseconds; at most a minute. Other
 * methods may still work. Undefined for all other responses, and for the codes `storage_…`, after which only the request
 * itself waits.
 */
export function methodPauseAfter({ status, headers, code }: HttpResponse, now: number): number | undefined {
  if (status !== 503 || code?.startsWith('storage_')) return undefined;
  const delay = parseRetryAfter(headers, now);
  return delay === undefined ? undefined : Math.min(delay, MAX_METHOD_PAUSE);
}
