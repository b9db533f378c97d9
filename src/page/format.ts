import type { RequestSummary } from '../server/tools/log-entry.ts';

/** How the page marks a request: `refused` is the status 429, `rejected` another 4xx, and `failed` 5xx. */
export type RequestKind = 'ok' | 'refused' | 'rejected' | 'failed';

export function requestKind({ status = 0 }: Pick<RequestSummary, 'status'>): RequestKind {
  if (status === 429) return 'refused';
  if (status >= 500) return 'failed';
  return status >= 400 ? 'rejected' : 'ok';
}

/** What happened to a request, in a few words. */
export function shortOutcome(
  { outcome, until }: Pick<RequestSummary, 'outcome' | 'until'>,
  now: Date,
): string {
  switch (outcome) {
    case 'rate_limited':
      return until === undefined ? 'refused' : `refused until ${formatUntil(until, now)}`;
    case 'banned':
      return until === undefined ? 'banned' : `banned until ${formatUntil(until, now)}`;
    case 'injected_fault':
      return 'injected fault';
    case 'not_counted':
      return 'not counted';
    default:
      return outcome;
  }
}

/** What happened to a request, in a sentence. */
export function longOutcome(
  { outcome, until }: Pick<RequestSummary, 'outcome' | 'until'>,
  now: Date,
): string {
  const end = until === undefined ? 'later' : `at ${formatUntil(until, now)}`;
  const sentences = {
    counted: 'Counted against the rate limit.',
    replayed: 'Counted, and got the response to an earlier request with the same Idempotency-Key.',
    rate_limited: `Refused because the rate limit was used up. The next window begins ${end}.`,
    banned: `Refused because the key is banned: requests continued after a 429. The ban ends ${end}.`,
    injected_fault: 'A fault was injected. The request was not counted and changed nothing.',
    mocked: 'The client chose this response with a Prefer header. The request was not counted.',
    not_counted: 'Not counted against a rate limit.',
  } as const;
  return sentences[outcome] ?? outcome;
}

const two = (value: number): string => String(value).padStart(2, '0');

/** The local time of day, with milliseconds. */
export function localTime(iso: string): string {
  const time = new Date(iso);
  return `${timeOfDay(time)}.${String(time.getMilliseconds()).padStart(3, '0')}`;
}

const timeOfDay = (time: Date): string =>
  [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':');

const dateOf = (time: Date): string =>
  `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;

/** A local time, with its date if that is not today. */
export function formatUntil(iso: string, now: Date): string {
  const time = new Date(iso);
  return dateOf(time) === dateOf(now) ? timeOfDay(time) : `${dateOf(time)} ${timeOfDay(time)}`;
}

export function durationText(milliseconds: number): string {
  return milliseconds < 1_000 ? `${milliseconds.toFixed(1)} ms` : `${(milliseconds / 1_000).toFixed(2)} s`;
}

/** How long something still takes, such as `34 s` or `5 h 12 min`. */
export function formatWait(milliseconds: number): string {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1_000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const formatBytes = (bytes: number): string =>
  bytes < 1_024 ? `${bytes} bytes` : `${(bytes / 1_024).toFixed(1)} KiB`;

/** A number with separators, such as `1,000,000`. */
export const formatNumber = (value: number | bigint): string => value.toLocaleString('en-US');

export const count = (value: number, noun: string): string =>
  `${formatNumber(value)} ${noun}${value === 1 ? '' : 's'}`;

/** Characters that would be invisible, or would change the direction of the text after them. Tabs are shown as they are. */
const HIDDEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u3164\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

const MAX_SHOWN = 400;

/** Text of several lines in which invisible characters are shown as escapes such as `\u202e`. */
export const visibleText = (text: string): string =>
  text.replace(HIDDEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** The beginning of a text on one line, as `visibleText` shows it. */
export function visibleLine(text: string): string {
  const start = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
  return visibleText(start.replaceAll('\n', '\\n').replaceAll('\t', '\\t'));
}
