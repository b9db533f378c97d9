import { header } from '../contract/headers.ts';
import { type HttpHeaders, parseHttpDate, readHeader, readHeaders, readList } from './headers.ts';

const SECOND = 1_000;

/** About 3,000 years, in milliseconds. Longer delays are shortened, so that the time after a delay is a valid Date. */
const MAX_DELAY = 1e14;

/** A window's end that is at least this number is a Unix time in milliseconds. In seconds, it would be the year 5138. */
const MIN_UNIX_MILLISECONDS = 1e11;

/** A window's end that is at least this number is a Unix time in seconds. A smaller number is a delay in seconds. */
const MIN_UNIX_SECONDS = 1e9;

/**
 * If the clocks differ by at most this many milliseconds, the local clock shows when a window ends. The Date header has
 * whole seconds, and the response takes time to arrive, so the end would otherwise differ between responses.
 */
const CLOCK_TOLERANCE = 3_000;

/** The names of windows by their length in seconds. */
const WINDOW_NAMES: Readonly<Record<number, string>> = {
  1: 'second',
  60: 'minute',
  3600: 'hour',
  86400: 'day',
};

/**
 * A rate-limit window that a response reports. `reset` is its end, in milliseconds since the epoch. `name` is `minute`, `day`
 * or the like if the response shows how long the window is, or else the name that the service uses, if it sends one.
 */
export type RateLimit = {
  name?: string | undefined;
  limit: number | undefined;
  remaining: number;
  reset: number;
};

/** A rate-limit window whose end the response may not report. */
export type OpenRateLimit = Omit<RateLimit, 'reset'> & { reset: number | undefined };

/** A window as its headers describe it. `delay` is the time until its end, in milliseconds. */
type ReportedWindow = { name?: string | undefined } & Record<
  'limit' | 'remaining' | 'delay',
  number | undefined
>;

/**
 * The delay that a 429 requests, in milliseconds from now; undefined if it requests none. Retry-After takes precedence
 * over the end of the rate-limit windows.
 */
export const requestedDelay = (headers: HttpHeaders, now: number): number | undefined =>
  parseRetryAfter(headers, now) ??
  longestDelay(readWindows(headers, now).filter(({ remaining = 0 }) => remaining <= 0)) ??
  longestDelay(readWindows(headers, now));

/** The time until the end of the rate-limit windows without requests left, in milliseconds; undefined if there is none. */
export const delayIfExhausted = (headers: HttpHeaders, now: number): number | undefined =>
  longestDelay(readWindows(headers, now).filter(({ remaining = 1 }) => remaining <= 0));

/** The delay in Retry-After (seconds or an HTTP-date), in milliseconds from now. The longest of repeated headers counts. */
export function parseRetryAfter(headers: HttpHeaders, now: number): number | undefined {
  const delays = splitValues(headers, header.retryAfter).map((text) => {
    // RFC 9110 does not allow fractions of a second, but some services send them.
    if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text) * SECOND);
    const date = parseHttpDate(text);
    return date === undefined ? undefined : Math.max(0, date - serverTime(headers, now));
  });
  return maximum(delays);
}

/** Every rate-limit window that a response reports: those of the header RateLimit, or else that of X-RateLimit. */
export function readRateLimits(headers: HttpHeaders, now: number): OpenRateLimit[] {
  const time = serverTime(headers, now);
  const isSynchronized = Math.abs(time - now) <= CLOCK_TOLERANCE;
  const listed = readListedWindows(headers, time);
  const isListed = listed.some(({ remaining, delay }) => remaining !== undefined && delay !== undefined);
  // The delays in RateLimit begin at the time in the Date header.
  const start = isListed && isSynchronized ? time : now;
  const windows = isListed ? listed : [readXWindow(headers, isSynchronized ? now : time)];
  return windows.flatMap(({ name, limit, remaining, delay }) =>
    remaining === undefined
      ? []
      : [{ name, limit, remaining, reset: delay === undefined ? undefined : start + delay }],
  );
}

/** The rate-limit window with the fewest requests left, of those whose end is known; undefined if there is none. */
export const readRateLimit = (headers: HttpHeaders, now: number): RateLimit | undefined =>
  readRateLimits(headers, now)
    .filter((limit): limit is RateLimit => limit.reset !== undefined)
    .sort((one, other) => one.remaining - other.remaining || other.reset - one.reset)[0];

/** The windows of all headers. */
function readWindows(headers: HttpHeaders, now: number): ReportedWindow[] {
  const time = serverTime(headers, now);
  return [readXWindow(headers, time), ...readListedWindows(headers, time)];
}

/**
 * Reads the window of the X-RateLimit headers. If they are repeated, the smallest number of remaining requests and the
 * latest end count. `now` is the time with which a Unix time is compared, in milliseconds since the epoch.
 */
function readXWindow(headers: HttpHeaders, now: number): ReportedWindow {
  const numbersIn = (name: string) => splitValues(headers, name).map(parseNumber).filter(isDefined);
  const remaining = numbersIn(header.rateLimitRemaining);
  const resets = numbersIn(header.rateLimitReset).filter((reset) => reset >= 0);
  return {
    limit: numbersIn(header.rateLimit)[0],
    remaining: remaining.length === 0 ? undefined : Math.min(...remaining),
    delay: maximum(resets.map((reset) => delayUntil(reset, now))),
  };
}

/**
 * Reads the header RateLimit, which lists windows, as in `"minute";r=0;t=30, "day";r=70;t=3600`. The header
 * RateLimit-Policy has their limits and lengths, as in `"minute";q=60;w=60, "day";q=1000;w=86400`
 * (draft-ietf-httpapi-ratelimit-headers).
 */
function readListedWindows(headers: HttpHeaders, now: number): ReportedWindow[] {
  const policies = readList(headers, header.rateLimitPolicy);
  return readList(headers, header.rateLimitWindows).map(({ value: name, parameters }) => {
    const policy = policies.find(({ value }) => value === name)?.parameters ?? {};
    const delay = parseNumber(parameters['t']);
    return {
      name: WINDOW_NAMES[parseNumber(policy['w']) ?? 0] ?? name,
      limit: parseNumber(policy['q']),
      remaining: parseNumber(parameters['r']),
      delay: delay === undefined || delay < 0 ? undefined : delayUntil(delay, now),
    };
  });
}

/** Reads a number such as `0`, `-1` or `0.5`; undefined for any other text. */
const parseNumber = (text: string | undefined): number | undefined =>
  text !== undefined && /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;

const isDefined = (value: number | undefined): value is number => value !== undefined;

const longestDelay = (windows: readonly ReportedWindow[]): number | undefined =>
  maximum(windows.map(({ delay }) => delay));

function maximum(delays: readonly (number | undefined)[]): number | undefined {
  const defined = delays.filter(isDefined);
  return defined.length === 0 ? undefined : Math.min(Math.max(...defined), MAX_DELAY);
}

/** The time until the end of a window, in milliseconds from now. `end` is a Unix time or a delay in seconds. */
function delayUntil(end: number, now: number): number {
  if (end < MIN_UNIX_SECONDS) return Math.ceil(end * SECOND);
  const time = end >= MIN_UNIX_MILLISECONDS ? end : end * SECOND;
  return Math.min(Math.max(0, Math.ceil(time - now)), MAX_DELAY);
}

/** The values of a header, which the service may have repeated, or a proxy may have joined with commas. */
const splitValues = (headers: HttpHeaders, name: string): string[] =>
  // Do not split at the comma of an HTTP-date.
  readHeaders(headers, name).flatMap((text) => text.split(/,(?! \d\d[ -][A-Z])/).map((part) => part.trim()));

/** Times are compared with the response's Date header, because the local clock may be wrong. */
const serverTime = (headers: HttpHeaders, now: number): number =>
  parseHttpDate(readHeader(headers, 'Date')?.trim() ?? '') ?? now;
