import { decimalToNumber } from '../contract/json.ts';
import type { RequestSummary } from '../server/tools/log-entry.ts';
import { requestKind } from './format.ts';

/** How many requests the page keeps, how many it reads at a time while it is open, and how many it shows. */
export const MAX_KEPT = 1_000;
export const POLL_LIMIT = 200;
export const MAX_ROWS = 200;

/** The requests that the page has read, the newest first. */
export type RequestLog = {
  requests: readonly RequestSummary[];
  /** The position after the latest request; undefined before the first poll. */
  cursor: string | undefined;
  /** Whether the next poll must read all requests, instead of those after the cursor. */
  readsAll: boolean;
  /** Where the list begins if the user has cleared it. */
  start: string | undefined;
  /** Whether requests are missing because more arrived than one poll returns. */
  hasGap: boolean;
};

/** A response as `parseJson` reads it: `milliseconds` has a fraction, so that it is not a `number` yet. */
export const readPoll = ({ requests, cursor }: PollResponse): PollResponse => ({
  requests: requests.map((request) => ({
    ...request,
    milliseconds: Number(decimalToNumber(request.milliseconds)),
  })),
  cursor,
});

export type PollResponse = { requests: readonly RequestSummary[]; cursor: string };

export const emptyLog: RequestLog = {
  requests: [],
  cursor: undefined,
  readsAll: true,
  start: undefined,
  hasGap: false,
};

/** The query of the next poll. A poll after a cursor waits until there is a request, except to end a gap soon. */
export function pollQuery({ cursor, start, readsAll, hasGap }: RequestLog): string {
  const query = new URLSearchParams({ summary: 'true' });
  if (!readsAll && cursor !== undefined) {
    query.set('since', cursor);
    if (!hasGap) query.set('wait', '20');
  } else if (start !== undefined) query.set('since', start);
  query.set('limit', String(readsAll ? MAX_KEPT : POLL_LIMIT));
  return query.toString();
}

/** Adds the response to a poll. After a gap, the log is read again as soon as a poll returns all new requests. */
export function mergePoll(log: RequestLog, { requests, cursor }: PollResponse): RequestLog {
  if (log.readsAll) return { ...log, requests, cursor, readsAll: false, hasGap: false };
  const isFull = requests.length >= POLL_LIMIT;
  const hasGap = isFull || log.hasGap;
  return {
    ...log,
    requests: isFull ? requests : [...requests, ...log.requests].slice(0, MAX_KEPT),
    cursor,
    readsAll: hasGap && !isFull,
    hasGap,
  };
}

/** Forgets all requests until now. */
export const clearLog = ({ cursor, start }: RequestLog): RequestLog => ({
  ...emptyLog,
  cursor,
  readsAll: cursor === undefined,
  start: cursor ?? start,
});

/** What the user has chosen. An empty text matches every request. */
export type RequestFilter = Record<'text' | 'status' | 'method' | 'outcome' | 'key', string>;

export const noFilter: RequestFilter = { text: '', status: '', method: '', outcome: '', key: '' };

export function matchesFilter(request: RequestSummary, filter: RequestFilter): boolean {
  const { text, status, method, outcome, key } = filter;
  return (
    (status === '' || requestKind(request) === status) &&
    (method === '' || request.method === method) &&
    (outcome === '' || request.outcome === outcome) &&
    (key === '' || request.keyName === key) &&
    (text === '' || [request.url, request.id, request.code ?? ''].some((each) => includes(each, text)))
  );
}

const includes = (value: string, text: string): boolean => value.toLowerCase().includes(text.toLowerCase());

/** What a screen reader announces about new requests; undefined if there is nothing to announce. */
export function announcement(requests: readonly RequestSummary[]): string | undefined {
  if (requests.length === 0) return undefined;
  const failed = requests.filter((request) => requestKind(request) !== 'ok').length;
  const total = requests.length === 1 ? '1 new request' : `${requests.length} new requests`;
  return failed === 0 ? total : `${total}, ${failed} with an error`;
}
