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
