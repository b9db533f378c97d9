import { header } from '../contract/headers.ts';
import { type ReplyHeaders, readHeader, readHeaders } from './headers.ts';
import { parseHttpDate } from './http-date.ts';

const SECOND = 1_000;

/** Three thousand years: any digit string is valid, but a date must still be able to hold the sum. */
const LONGEST = 1e14;

/** Above it a Reset is meant in milliseconds: as seconds it would lie three thousand years ahead. */
const MILLISECONDS_FROM = 1e11;

/**
 * How long the service asks to wait, in milliseconds from now; undefined where it does not say or cannot be
 * understood. Dates are held against the reply's own Date, because the local clock may be wrong.
 */
export function askedWait(headers: ReplyHeaders, now: number): number | undefined {
  return retryAfter(headers, now) ?? untilReset(headers, now);
}

/** What Retry-After says, in either form, in milliseconds from now; of several the longest. */
export function retryAfter(headers: ReplyHeaders, now: number): number | undefined {
  const waits = readList(headers, header.retryAfter)
    .map((text) => delayOf(text, headers, now))
    .filter((wait) => wait !== undefined);
  return waits.length === 0 ? undefined : Math.min(Math.max(...waits), LONGEST);
}

/** Fractions are no delay-seconds, but whoever sends 1.5 does not mean less. */
function delayOf(text: string, headers: ReplyHeaders, now: number): number | undefined {
  if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text) * SECOND);
  const date = parseHttpDate(text, now);
  return date === undefined ? undefined : Math.max(0, date - serverNow(headers, now));
}

/** How long until the window ends that the headers report, in milliseconds from now; of several the longest. */
export function untilReset(headers: ReplyHeaders, now: number): number | undefined {
  const resets = readList(headers, header.rateLimitReset)
    .filter((text) => /^\d+$/.test(text))
    .map(Number)
    .map((reset) => (reset >= MILLISECONDS_FROM ? reset : reset * SECOND));
  if (resets.length === 0) return undefined;
  return Math.min(Math.max(0, Math.max(...resets) - serverNow(headers, now)), LONGEST);
}

/** The window that the headers report; undefined where they report none. `reset` is in seconds since the epoch. */
export function readQuota(
  headers: ReplyHeaders,
): { limit: number; remaining: number; reset: number } | undefined {
  const [limit, remaining, reset] = [header.rateLimit, header.rateLimitRemaining, header.rateLimitReset].map(
    (name) => Number(readHeader(headers, name)),
  ) as [number, number, number];
  return [limit, remaining, reset].every(Number.isSafeInteger) ? { limit, remaining, reset } : undefined;
}

/** Whether this reply has spent the last request of its window. */
export const isSpent = (headers: ReplyHeaders): boolean =>
  readList(headers, header.rateLimitRemaining).some((text) => /^(0+|-\d+)$/.test(text));

/** What a header says, each time it does: in lines of its own, or joined into one by what stands in between. */
const readList = (headers: ReplyHeaders, name: string): string[] =>
  // The comma in a date does not separate.
  readHeaders(headers, name).flatMap((text) => text.split(/,(?! \d\d[ -][A-Z])/).map((part) => part.trim()));

const serverNow = (headers: ReplyHeaders, now: number): number =>
  parseHttpDate(readHeader(headers, 'Date')?.trim() ?? '', now) ?? now;
