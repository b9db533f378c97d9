import { header } from '../contract/headers.ts';
import { type ReplyHeaders, readHeader } from './headers.ts';

const SECOND = 1_000;

/** Three thousand years: any digit string is valid, but a date must still be able to hold the sum. */
const LONGEST = 1e14;

/**
 * How long the service asks to wait, in milliseconds from now; undefined where it does not say or cannot be
 * understood. Dates are held against the reply's own Date, because the local clock may be wrong.
 */
export function askedWait(headers: ReplyHeaders, now: number): number | undefined {
  const serverNow = parseDate(readHeader(headers, 'Date')) ?? now;
  const wait = retryAfter(headers, serverNow) ?? untilReset(headers, serverNow);
  return wait === undefined ? undefined : Math.min(wait, LONGEST);
}

function retryAfter(headers: ReplyHeaders, serverNow: number): number | undefined {
  const text = readHeader(headers, header.retryAfter)?.trim();
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * SECOND;
  const date = parseDate(text);
  return date === undefined ? undefined : Math.max(0, date - serverNow);
}

function untilReset(headers: ReplyHeaders, serverNow: number): number | undefined {
  const text = readHeader(headers, header.rateLimitReset)?.trim();
  if (text === undefined || !/^\d+$/.test(text)) return undefined;
  return Math.max(0, Number(text) * SECOND - serverNow);
}

/** Only what names a day: Date.parse takes a bare number or `-5` for a year. */
function parseDate(text: string | undefined): number | undefined {
  if (text === undefined || !/^[A-Za-z]{3,9},? /.test(text)) return undefined;
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}
