import { header } from '../contract/headers.ts';
import { parseHttpDate } from './http-date.ts';
import { type HttpHeaders, readHeader, readHeaders } from './response.ts';

const SECOND = 1_000;

/** About 3,000 years, in milliseconds. Longer delays are shortened, so that the time after a delay is a valid Date. */
const MAX_DELAY = 1e14;

/** A reset time of at least this number is in milliseconds. In seconds, it would be more than 3,000 years ahead. */
const MIN_MILLISECONDS = 1e11;

/**
 * The delay that Retry-After requests, or else X-RateLimit-Reset, in milliseconds from now; undefined if neither header
 * is valid. Times are compared with the response's Date header, because the local clock may be wrong.
 */
export function requestedDelay(headers: HttpHeaders, now: number): number | undefined {
  return parseRetryAfter(headers, now) ?? delayUntilReset(headers, now);
}

/** The delay in Retry-After (seconds or an HTTP-date), in milliseconds from now. The longest of repeated headers counts. */
export function parseRetryAfter(headers: HttpHeaders, now: number): number | undefined {
  const delays = readList(headers, header.retryAfter)
    .map((text) => parseDelay(text, headers, now))
    .filter((delay) => delay !== undefined);
  return delays.length === 0 ? undefined : Math.min(Math.max(...delays), MAX_DELAY);
}

/** Accepts fractions of a second as well, although RFC 9110 does not allow them. */
function parseDelay(text: string, headers: HttpHeaders, now: number): number | undefined {
  if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text) * SECOND);
  const date = parseHttpDate(text, now);
  return date === undefined ? undefined : Math.max(0, date - serverTime(headers, now));
}

/** The time until X-RateLimit-Reset, in milliseconds from now. The longest of repeated headers counts. */
export function delayUntilReset(headers: HttpHeaders, now: number): number | undefined {
  const resets = readList(headers, header.rateLimitReset)
    .filter((text) => /^\d+$/.test(text))
    .map(Number)
    .map((reset) => (reset >= MIN_MILLISECONDS ? reset : reset * SECOND));
  if (resets.length === 0) return undefined;
  return Math.min(Math.max(0, Math.max(...resets) - serverTime(headers, now)), MAX_DELAY);
}

/**
 * The X-RateLimit headers (docs/service.md 8.3), with `reset` in seconds; undefined if one is missing or not an
 * integer.
 */
export function readRateLimit(
  headers: HttpHeaders,
): { limit: number; remaining: number; reset: number } | undefined {
  const [limit, remaining, reset] = [header.rateLimit, header.rateLimitRemaining, header.rateLimitReset].map(
    (name) => Number(readHeader(headers, name)),
  ) as [number, number, number];
  return [limit, remaining, reset].every(Number.isSafeInteger) ? { limit, remaining, reset } : undefined;
}

/** Whether the response reports that the rate-limit window has no requests left. */
export const isExhausted = (headers: HttpHeaders): boolean =>
  /(^|,)\s*(0+|-\d+)\s*(,|$)/.test(readHeaders(headers, header.rateLimitRemaining).join());

/** The values of a header that was repeated, or whose values a proxy has joined. */
const readList = (headers: HttpHeaders, name: string): string[] =>
  // Do not split at the comma of an HTTP-date.
  readHeaders(headers, name).flatMap((text) => text.split(/,(?! \d\d[ -][A-Z])/).map((part) => part.trim()));

const serverTime = (headers: HttpHeaders, now: number): number =>
  parseHttpDate(readHeader(headers, 'Date')?.trim() ?? '', now) ?? now;
