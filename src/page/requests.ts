import { MAX_FOREIGN_REQUESTS, MAX_RECORDED_REQUESTS } from '../contract/recorded-text.ts';
import { formatCount, type LoggedRequest, statusKind } from './text.ts';

export const views = { requests: 'Requests', faults: 'Faults', keys: 'Keys' };

/**
 * The fragment of the page's address, such as `#requests?status=failed&request=14`. The list shows requests that contain
 * `text` and have this kind of status. An empty `text` or `status` selects all requests.
 */
export type Route = {
  view: keyof typeof views;
  text: string;
  status: string;
  request: number | undefined;
};

/** The longest text that can be searched for, so that the server accepts the URL of the search. */
export const MAX_SEARCH_TEXT = 400;

export const startRoute: Route = { view: 'requests', text: '', status: '', request: undefined };

/** Reads a fragment: `startRoute` if empty, `previous` for an unknown view. `#faults` and `#keys` set only the view. */
export function parseRoute(hash: string, previous: Route): Route {
  if (hash === '') return startRoute;
  const [name, query] = hash.slice(1).split('?', 2);
  if (name === undefined || !Object.hasOwn(views, name)) return previous;
  const view = name as keyof typeof views;
  if (view !== 'requests') return { ...previous, view };
  const parameters = new URLSearchParams(query);
  const request = Number(parameters.get('request'));
  return {
    view,
    text: (parameters.get('text') ?? '').slice(0, MAX_SEARCH_TEXT),
    status: parameters.get('status') ?? '',
    request: Number.isSafeInteger(request) && request > 0 ? request : undefined,
  };
}

export function formatRoute({ view, text, status, request }: Partial<Route>): string {
  if (view !== 'requests') return `#${view}`;
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ text, status, request }))
    if (value) query.set(name, String(value));
  return query.size === 0 ? '#requests' : `#requests?${query}`;
}

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
 * Adds the new requests in the response to a poll. They replace the old ones if the server has another log now, or if the
 * searched text has changed. Of the requests of pages that may not use the service, only the latest stay.
 */
export function mergePoll(log: RequestLog, text: string, response: PollResponse): RequestLog {
  const older = log.log === response.log && log.text === text ? log.requests : [];
  let foreign = 0;
  const requests = [...response.requests, ...older]
    .filter((each) => each.foreignOrigin === undefined || ++foreign <= MAX_FOREIGN_REQUESTS)
    .slice(0, MAX_RECORDED_REQUESTS);
  return { ...response, requests, text };
}

/** The title of the tab: how many requests were rejected or failed, and the port of the service, or else its host name. */
export function titleOf(
  requests: readonly LoggedRequest[],
  { port, hostname }: { port: string; hostname: string },
): string {
  const errors = requests.filter((request) => statusKind(request) !== 'ok').length;
  const service = `pets serve ${port === '' ? hostname : `:${port}`}`;
  return errors === 0 ? service : `${formatCount(errors, 'error')} · ${service}`;
}
