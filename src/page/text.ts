import type { createFaults } from '../server/faults.ts';
import type { DescribedRequest, RequestSummary } from '../server/tools/recorder.ts';
import type { createTools } from '../server/tools/tools.ts';
import { createTimeFormatter } from '../system/time-text.ts';

// The types of what the developer tools send (docs/testing.md).

type Tools = ReturnType<typeof createTools>;
export type Faults = ReturnType<ReturnType<typeof createFaults>['current']>;
export type KeyList = Awaited<ReturnType<Tools['describeKeys']>>;
export type ResetPlan = Awaited<ReturnType<Tools['describeReset']>>;
export type WholeRequest = DescribedRequest;
export type LoggedRequest = RequestSummary;

/** How the page marks a status: `rejected` is 4xx, and `failed` is 5xx or no response. */
export function statusKind({ status = 599 }: Pick<LoggedRequest, 'status'>): 'ok' | 'rejected' | 'failed' {
  if (status >= 500) return 'failed';
  return status >= 400 ? 'rejected' : 'ok';
}

/** Why a request got its status, with the end of a limit or ban, and with what else is remarkable. */
export function reasonText(
  { because, until, outcome, delay, ignored, foreignOrigin }: LoggedRequest,
  now: Date,
): string {
  const end = outcome === 'banned' ? 'the ban ends' : 'retry';
  return [
    because,
    until && `${end} at ${formatTime(until, now)}`,
    delay && `delayed by ${formatMilliseconds(delay)}`,
    ignored && `ignored: Prefer: ${ignored}`,
    foreignOrigin === 'unknown' && 'any website can send this',
  ]
    .filter(Boolean)
    .join('; ');
}

/** Formats local times such as `2026-11-20 12:01:05 CET`. */
const format = createTimeFormatter(undefined);

/** The local time of day, with milliseconds. */
export const localTime = (iso: string): string => format(Date.parse(iso)).split(' ')[1] + iso.slice(19, 23);

/** A local time without milliseconds, with its date if that is not the date of `now`. */
export function formatTime(iso: string, now: Date): string {
  const [date = '', time = ''] = format(Date.parse(iso)).split(' ');
  return format(now.getTime()).startsWith(date) ? time : `${date} ${time}`;
}

export function formatMilliseconds(milliseconds: number): string {
  return milliseconds < 1_000 ? `${milliseconds.toFixed(1)} ms` : `${(milliseconds / 1_000).toFixed(2)} s`;
}

/** A number with separators, such as `1,000,000`. */
export const formatNumber = (value: number): string => value.toLocaleString('en-US');

export const formatCount = (value: number, noun: string): string =>
  `${formatNumber(value)} ${noun}${value === 1 ? '' : 's'}`;

/** Characters that are invisible, that change the direction of the text after them, or that a terminal could interpret. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/gu;

/** Invisible characters that are not escaped. Some scripts and emoji need joiners and variation selectors. */
const HARMLESS = '\n\t\u200c\u200d\ufe0e\ufe0f';

const MAX_SHOWN = 400;

/** Shows invisible characters as escapes such as `\u202e`, except those that are harmless. */
export const escapeInvisible = (text: string): string =>
  text.replace(INVISIBLE, (char) => {
    const code = char.codePointAt(0)?.toString(16).padStart(4, '0') ?? '';
    return HARMLESS.includes(char) ? char : `\\u${code.length > 4 ? `{${code}}` : code}`;
  });

/** The beginning of a text, on one line and with escapes for invisible characters, line ends and tabs. */
export function escapeAndShorten(text: string): string {
  const start = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
  return escapeInvisible(start.replaceAll('\n', '\\n').replaceAll('\t', '\\t'));
}

/** The tokens of JSON except numbers and words, with white space. An empty object or array is one token. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[[\]{},:]|\s+/g;
const MAX_INDENT = 40;

/**
 * Puts JSON on several lines. Every number, string and duplicate name stays as it was sent. Returns undefined if the text
 * is not an object or an array in JSON.
 */
export function layOutJson(text: string): string | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  let depth = 0;
  const lineEnd = (change: number) => {
    depth += change;
    return `\n${'  '.repeat(Math.min(depth, MAX_INDENT))}`;
  };
  return text.replace(TOKEN, (token) => {
    if (token.startsWith('"')) return token;
    if (/^[[{].*[\]}]$/s.test(token)) return `${token[0]}${token.at(-1)}`;
    if (token === '[' || token === '{') return token + lineEnd(1);
    if (token === ']' || token === '}') return lineEnd(-1) + token;
    if (token === ',') return token + lineEnd(0);
    return token === ':' ? ': ' : '';
  });
}
