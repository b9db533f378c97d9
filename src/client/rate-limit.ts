import { header } from '../contract/headers.ts';
import { parseHttpDate } from './http-date.ts';
import { type HttpHeaders, readHeader, readHeaders } from './response.ts';
import { readMembers } from './structured-list.ts';

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

/** A rate-limit window as a response reports it. `delay` is the time until its end, in milliseconds from now. */
type ReportedWindow = { name?: string | undefined } & Record<
  'limit' | 'remaining' | 'delay',
  number | undefined
>;

/** The names of windows by their length in seconds. */
const WINDOW_NAMES: Readonly<Record<number, string>> = {
  1: 'second',
  60: 'minute',
  3600: 'hour',
  86400: 'day',
};

/** The names of the headers with the limit, the remaining requests, and the end of a window. */
type HeaderNames = readonly [limit: string, remaining: string, reset: string];

const OUR_HEADERS: HeaderNames = [header.rateLimit, header.rateLimitRemaining, header.rateLimitReset];

/** The headers of draft-ietf-httpapi-ratelimit-headers up to version 6. */
const DRAFT_6_HEADERS: HeaderNames = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'];

/**
 * The delay that a 429 requests, in milliseconds from now; undefined if it requests none. Retry-After takes precedence
 * over the end of the rate-limit window.
 */
export function requestedDelay(headers: HttpHeaders, now: number): number | undefined {
  const windows = readWindows(headers, serverTime(headers, now));
  const exhausted = windows.filter(isExhausted);
  return parseRetryAfter(headers, now) ?? longestDelay(exhausted.length > 0 ? exhausted : windows);
}

/** The time until the end of the rate-limit window, in milliseconds from now, if the window has no requests left. */
export function delayIfExhausted(headers: HttpHeaders, now: number): number | undefined {
  return longestDelay(readWindows(headers, serverTime(headers, now)).filter(isExhausted));
}

/** The delay in Retry-After (seconds or an HTTP-date), in milliseconds from now. The longest of repeated headers counts. */
export function parseRetryAfter(headers: HttpHeaders, now: number): number | undefined {
  const delays = readList(headers, header.retryAfter)
    .map((text) => parseDelay(text, headers, now))
    .filter((delay) => delay !== undefined);
  return maximum(delays.map((delay) => Math.min(delay, MAX_DELAY)));
}

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

/** Every rate-limit window that a response reports; empty if it reports none. Headers with the end of a window go first. */
export function readRateLimits(headers: HttpHeaders, now: number): OpenRateLimit[] {
  const time = serverTime(headers, now);
  const isSynchronized = Math.abs(time - now) <= CLOCK_TOLERANCE;
  const readTriple = (names: HeaderNames) =>
    toRateLimits([readWindow(names, headers, isSynchronized ? now : time)], now);
  const sources = [
    // The header RateLimit has delays, which begin at the time in the Date header.
    toRateLimits(readStructuredWindows(headers, time), isSynchronized ? time : now),
    readTriple(OUR_HEADERS),
    readTriple(DRAFT_6_HEADERS),
  ];
  return sources.find((limits) => limits.some(hasEnd)) ?? sources.find((limits) => limits.length > 0) ?? [];
}

const hasEnd = (limit: OpenRateLimit): limit is RateLimit => limit.reset !== undefined;

/** The rate-limit window with the fewest requests left, of those whose end is known; undefined if there is none. */
export function readRateLimit(headers: HttpHeaders, now: number): RateLimit | undefined {
  return readRateLimits(headers, now)
    .filter(hasEnd)
    .sort((one, other) => one.remaining - other.remaining || other.reset - one.reset)[0];
}

/** Leaves out windows without the number of remaining requests. `start` is the time from which delays are counted. */
const toRateLimits = (windows: readonly ReportedWindow[], start: number): OpenRateLimit[] =>
  windows.flatMap(({ name, limit, remaining, delay }) =>
    remaining === undefined
      ? []
      : [{ name, limit, remaining, reset: delay === undefined ? undefined : start + delay }],
  );

/** Accepts fractions of a second as well, although RFC 9110 does not allow them. */
function parseDelay(text: string, headers: HttpHeaders, now: number): number | undefined {
  if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text) * SECOND);
  const date = parseHttpDate(text, now);
  return date === undefined ? undefined : Math.max(0, date - serverTime(headers, now));
}

/**
 * Reads the windows whose end is known from the headers of our service, or else from those of
 * draft-ietf-httpapi-ratelimit-headers. `now` is the time with which Unix times in the headers are compared, in
 * milliseconds since the epoch.
 */
function readWindows(headers: HttpHeaders, now: number): ReportedWindow[] {
  const sources = [
    [readWindow(OUR_HEADERS, headers, now)],
    readStructuredWindows(headers, now),
    [readWindow(DRAFT_6_HEADERS, headers, now)],
  ];
  return (
    sources
      .map((windows) => windows.filter(({ delay }) => delay !== undefined))
      .find((windows) => windows.length > 0) ?? []
  );
}

/** Reads three headers. If they are repeated, the smallest number of remaining requests and the latest end count. */
function readWindow(names: HeaderNames, headers: HttpHeaders, now: number): ReportedWindow {
  const [limits, remaining, resets] = names.map((name) =>
    readList(headers, name)
      .filter((text) => /^-?\d+$/.test(text))
      .map(Number),
  ) as [number[], number[], number[]];
  const delays = resets.filter((reset) => reset >= 0).map((reset) => delayUntil(reset, now));
  return { limit: limits[0], remaining: minimum(remaining), delay: maximum(delays) };
}

/**
 * Reads the header RateLimit, which is a structured field (RFC 9651). Since version 8 of the draft, it lists windows, as
 * in `"minute";r=0;t=30, "day";r=70;t=3600`, and the header RateLimit-Policy has their limits and lengths, as in
 * `"minute";q=60;w=60, "day";q=1000;w=86400`. In version 7, it describes one window: `limit=60, remaining=0, reset=30`.
 */
function readStructuredWindows(headers: HttpHeaders, now: number): ReportedWindow[] {
  const members = readMembers(headers, header.rateLimitWindows);
  const { limit, remaining, reset } = Object.assign({}, ...members.map(({ integers }) => integers));
  if (remaining !== undefined || reset !== undefined)
    return [{ limit, remaining, delay: delayUntil(reset, now) }];
  const policies = readMembers(headers, header.rateLimitPolicy);
  return members.map(({ name, integers: { r, t } }) => {
    const { q, w } = policies.find((policy) => policy.name === name)?.integers ?? {};
    return { name: WINDOW_NAMES[w ?? 0] ?? name, limit: q, remaining: r, delay: delayUntil(t, now) };
  });
}

const isExhausted = ({ remaining }: ReportedWindow): boolean => remaining !== undefined && remaining <= 0;

const longestDelay = (windows: readonly ReportedWindow[]): number | undefined =>
  maximum(windows.map(({ delay }) => delay).filter((delay) => delay !== undefined));

const maximum = (numbers: readonly number[]): number | undefined =>
  numbers.length === 0 ? undefined : Math.max(...numbers);

const minimum = (numbers: readonly number[]): number | undefined =>
  numbers.length === 0 ? undefined : Math.min(...numbers);

/** The time until the end of a window, in milliseconds from now. `end` is a Unix time or a delay in seconds. */
function delayUntil(end: number, now: number): number;
function delayUntil(end: number | undefined, now: number): number | undefined;
function delayUntil(end: number | undefined, now: number): number | undefined {
  if (end === undefined) return undefined;
  if (end < MIN_UNIX_SECONDS) return end * SECOND;
  const time = end >= MIN_UNIX_MILLISECONDS ? end : end * SECOND;
  return Math.min(Math.max(0, time - now), MAX_DELAY);
}

/** The values of a header, which the service may have repeated, or a proxy may have joined with commas. */
const readList = (headers: HttpHeaders, name: string): string[] =>
  // Do not split at the comma of an HTTP-date.
  readHeaders(headers, name).flatMap((text) => text.split(/,(?! \d\d[ -][A-Z])/).map((part) => part.trim()));

/** Times are compared with the response's Date header, because the local clock may be wrong. */
const serverTime = (headers: HttpHeaders, now: number): number =>
  parseHttpDate(readHeader(headers, 'Date')?.trim() ?? '', now) ?? now;
