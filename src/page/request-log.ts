import { MAX_FOREIGN } from '../contract/recorded-text.ts';
import type { LoggedRequest, RunningRequest } from './api-types.ts';
import { formatCount, statusKind } from './text.ts';

/** How many requests the page shows. The server keeps as many. */
export const MAX_REQUESTS = 1_000;

/** What the page has read of the log, the newest requests first. */
export type RequestLog = PollResponse & {
  /** The text that all `requests` contain. The server searches for it, because the page does not have the bodies. */
  text: string;
};

/** `log` changes if the server was started again or its log was cleared. `cursor` is empty before the first poll. */
export type PollResponse = {
  requests: readonly LoggedRequest[];
  running: readonly RunningRequest[];
  log: string;
  cursor: string;
};

export const emptyLog: RequestLog = { requests: [], running: [], log: '', cursor: '', text: '' };

/** The query of the next poll. If the log has the results for `text`, the poll waits for a new request. */
export function pollQuery({ text: logged, cursor }: RequestLog, text: string): string {
  const query = new URLSearchParams({ summary: 'true' });
  if (text !== '') query.set('text', text);
  if (cursor !== '' && logged === text) {
    query.set('since', cursor);
    query.set('wait', '1');
  }
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
    .filter((each) => each.foreignOrigin === undefined || ++foreign <= MAX_FOREIGN)
    .slice(0, MAX_REQUESTS);
  return { ...response, requests, text };
}

/** The filters that the user has chosen. An empty filter matches every request. */
export type RequestFilter = Record<'text' | 'status' | 'method' | 'key', string>;

export const noFilter: RequestFilter = { text: '', status: '', method: '', key: '' };

/** The longest text that can be searched for, so that the server accepts the URL of the search. */
export const MAX_SEARCH_TEXT = 400;

/** Whether the list shows a request. The server has already searched for the text, except in running requests. */
export function matchesFilter(
  request: Partial<LoggedRequest> & RunningRequest,
  { text, status, method, key }: RequestFilter,
): boolean {
  const isRunning = request.number === undefined;
  return (
    (status === '' || (!isRunning && statusKind(request) === status)) &&
    (method === '' || request.method === method) &&
    (key === '' || request.keyName === key) &&
    (!isRunning || request.url.toLowerCase().includes(text.toLowerCase()))
  );
}

/** The title of the tab: how many requests failed, and the port of the service. */
export function titleOf(
  requests: readonly LoggedRequest[],
  { port, hostname }: Pick<Location, 'port' | 'hostname'>,
): string {
  const errors = requests.filter((request) => statusKind(request) !== 'ok').length;
  const place = `pets serve ${port === '' ? hostname : `:${port}`}`;
  return errors === 0 ? place : `${formatCount(errors, 'error')} · ${place}`;
}

export const views = { requests: 'Requests', faults: 'Faults', keys: 'Keys' };

/** What the address of the page says, such as `#requests?method=POST&request=14`. */
export type Route = { view: keyof typeof views; filter: RequestFilter; request: number | undefined };

export const startRoute: Route = { view: 'requests', filter: noFilter, request: undefined };

/** Reads a fragment: `startRoute` if empty, `previous` for an unknown view. `#faults` and `#keys` set only the view. */
export function parseRoute(hash: string, previous: Route): Route {
  if (hash === '') return startRoute;
  const [name, query] = hash.slice(1).split('?', 2);
  if (name === undefined || !Object.hasOwn(views, name)) return previous;
  const view = name as keyof typeof views;
  if (view !== 'requests') return { ...previous, view };
  const parameters = new URLSearchParams(query);
  const filter = { ...noFilter };
  for (const field of Object.keys(filter) as (keyof RequestFilter)[]) {
    filter[field] = (parameters.get(field) ?? '').slice(0, MAX_SEARCH_TEXT);
  }
  const request = Number(parameters.get('request'));
  return { view, filter, request: Number.isSafeInteger(request) && request > 0 ? request : undefined };
}

export function formatRoute({ view, filter, request }: Route): string {
  if (view !== 'requests') return `#${view}`;
  const chosen = Object.entries({ ...filter, request: request?.toString() ?? '' });
  const query = new URLSearchParams(chosen.filter(([, value]) => value !== '')).toString();
  return query === '' ? '#requests' : `#requests?${query}`;
}
