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

const MINUTE = 60_000;

/** About 3,000 years, in milliseconds. Longer delays are shortened, so that the time after a delay is a valid Date. */
const MAX_DELAY = 1e14;

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

/**
 * How long requests with the same method must wait after a 503 with Retry-After, in milliseconds; at most a minute. Other
 * methods may still work. Undefined for all other responses, and for the codes `storage_…`, after which only the request
 * itself waits.
 */
export function methodPauseAfter({ status, headers, code }: HttpResponse, now: number): number | undefined {
  if (status !== 503 || code?.startsWith('storage_')) return undefined;
  const delay = parseRetryAfter(headers, now);
  return delay && Math.min(delay, MINUTE);
}

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
 * X-RateLimit headers. Those with the fewest requests left come first. Headers usually have the time left, rounded up to
 * seconds, so ends are rounded down.
 */
export function readRateLimits(headers: HttpHeaders, now: number): RateLimit[] {
  const limits = readWindows(headers, now).flatMap((window) => {
    const { name, limit, remaining } = window;
    const delay = longestDelay([window]);
    if (remaining === undefined || delay === undefined) return [];
    return [{ name, limit, remaining, reset: Math.floor((now + delay) / SECOND) * SECOND }];
  });
  const named = limits.filter(({ name }) => name !== undefined);
  return (named.length > 0 ? named : limits).sort(
    (one, other) => one.remaining - other.remaining || other.reset - one.reset,
  );
}

/**
 * Reads all forms of the headers of draft-ietf-httpapi-ratelimit-headers and their predecessors:
 *
 * - one window without a name: `X-RateLimit-Reset: 30` or `RateLimit-Reset: 30`, each with `-Remaining` and `-Limit`; or
 *   `RateLimit: limit=60, remaining=0, reset=30`. If a value is repeated, the smallest number of remaining requests and the
 *   latest end count.
 * - windows with names: `RateLimit: "minute";r=0;t=30, "day";r=70;t=3600`, with their limits in another header, as in
 *   `RateLimit-Policy: "minute";q=60;w=60, "day";q=1000;w=86400`
 */
function readWindows(headers: HttpHeaders, now: number): ReportedWindow[] {
  const elements = readHeaderList(headers, header.rateLimitWindows);
  const valuesOf = (name: 'Limit' | 'Remaining' | 'Reset') => [
    ...splitValues(headers, `X-RateLimit-${name}`),
    ...splitValues(headers, `RateLimit-${name}`),
    ...elements.flatMap(({ value }) => value.match(new RegExp(`^${name}=(.*)$`, 'i'))?.[1] ?? []),
  ];
  const numbersOf = (name: 'Limit' | 'Remaining') => valuesOf(name).map(parseNumber).filter(isDefined);
  const [remaining] = numbersOf('Remaining').sort((one, other) => one - other);
  const policies = readHeaderList(headers, header.rateLimitPolicy);
  return [
    {
      name: undefined,
      limit: numbersOf('Limit')[0],
      remaining,
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
  // Numbers below a billion are delays. Above 100 billion, seconds since the epoch would be after the year 5138.
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

const isDefined = (value: number | undefined): value is number => value !== undefined;

function maximum(delays: readonly (number | undefined)[]): number | undefined {
  const defined = delays.filter(isDefined);
  return defined.length === 0 ? undefined : Math.min(Math.max(...defined), MAX_DELAY);
}

const longestDelay = (windows: readonly ReportedWindow[]): number | undefined =>
  maximum(windows.map(({ delay }) => delay));

/** The longest delay of the windows without requests left. A number that is not known counts as `unknown`. */
const exhaustedDelay = (windows: readonly ReportedWindow[], unknown: number): number | undefined =>
  longestDelay(windows.filter(({ remaining = unknown }) => remaining <= 0));

/** The values of a header, which the service may have repeated, or a proxy may have joined with commas. */
const splitValues = (headers: HttpHeaders, name: string): string[] =>
  // Do not split at the comma of an HTTP-date.
  readHeaders(headers, name).flatMap((text) => text.split(/,(?! \d\d[ -][A-Z])/).map((part) => part.trim()));

/** The time in the Date header, or else `now`. Headers are compared with it, because the local clock may be wrong. */
const serverTime = (headers: HttpHeaders, now: number): number =>
  parseHttpDate(readHeader(headers, 'Date')?.trim() ?? '') ?? now;
