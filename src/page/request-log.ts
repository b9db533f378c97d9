import { MAX_FOREIGN_REQUESTS, MAX_RECORDED_REQUESTS } from '../contract/recorded-text.ts';
import type { LoggedRequest } from './api-types.ts';
import { formatCount, statusKind } from './text.ts';

/** `log` changes if the server was started again or its log was cleared. `cursor` is empty before the first poll. */
export type PollResponse = { requests: readonly LoggedRequest[]; log: string; cursor: string };

/** What the page has read of the log, the newest requests first. All of them contain `text`. */
export type RequestLog = PollResponse & { text: string };

export const emptyLog: RequestLog = { requests: [], log: '', cursor: '', text: '' };

/** The query of the next poll: for new requests, or for all if the log does not have the results for `text`. */
export function pollQuery({ text: logged, cursor }: RequestLog, text: string): string {
  const query = new URLSearchParams({ summary: 'true' });
  if (text !== '') query.set('text', text);
  if (cursor !== '' && logged === text) query.set('since', cursor);
  return query.toString();
}

/**
 * Adds the new requests in the response to a poll. They replace the log if it is another one, or if the searched text has
 * changed. Of pages that may not use the service, only the latest requests stay.
 */
export function mergePoll(log: RequestLog, text: string, response: PollResponse): RequestLog {
  const older = log.log === response.log && log.text === text ? log.requests : [];
  let foreign = 0;
  const requests = [...response.requests, ...older]
    .filter((each) => each.foreignOrigin === undefined || ++foreign <= MAX_FOREIGN_REQUESTS)
    .slice(0, MAX_RECORDED_REQUESTS);
  return { ...response, requests, text };
}

/** The title of the tab: how many requests failed, and the port of the service. */
export function titleOf(
  requests: readonly LoggedRequest[],
  { port, hostname }: { port: string; hostname: string },
): string {
  const errors = requests.filter((request) => statusKind(request) !== 'ok').length;
  const place = `pets serve ${port === '' ? hostname : `:${port}`}`;
  return errors === 0 ? place : `${formatCount(errors, 'error')} · ${place}`;
}
