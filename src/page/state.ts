import { describeEffect, matchLabel, type NewRule, type Rule } from './faults.ts';
import {
  emptyLog,
  formatRoute,
  mergePoll,
  type PollResponse,
  parseRoute,
  pollQuery,
  type RequestLog,
  type Route,
  startRoute,
} from './requests.ts';
import { type Faults, formatCount, type KeyList } from './text.ts';

/** The pause between two polls, in milliseconds. */
const PAUSE_MS = 500;

/** What the page shows, except the details of a request. */
export type State = {
  route: Route;
  session: 'none' | 'starting' | 'begun';
  /** Why the session ended or the last attempt to sign in failed; empty otherwise. */
  signInProblem: string;
  /** Why the last poll failed; empty if it did not. */
  connectionProblem: string;
  /** What the last action of the user has done, or why it failed. */
  message: { text: string; isProblem: boolean };
  log: RequestLog;
  /** Whether the user has paused the list of requests. */
  isPaused: boolean;
  faults: Faults | undefined;
  keys: KeyList | undefined;
};

const noMessage = { text: '', isProblem: false };

export type Page = ReturnType<typeof runPage>;

/**
 * Creates the state of the page and the actions that change it, and calls `render` after each change. Reads the
 * address, listens to events of the browser, and polls the server while there is a session and the tab is visible.
 */
export function runPage(render: (page: Page) => void) {
  const server = createToolsClient((message) => {
    update({ session: 'none', signInProblem: message, connectionProblem: '', message: noMessage });
    restartPolling();
  });
  let state: State = {
    route: parseRoute(location.hash, startRoute),
    session: server.hasSession() ? 'begun' : 'none',
    signInProblem: '',
    connectionProblem: '',
    message: noMessage,
    log: emptyLog,
    isPaused: false,
    faults: undefined,
    keys: undefined,
  };
  /** Aborted to stop the current polling. */
  let polling = new AbortController();
  let isActing = false;

  function update(changes: Partial<State>): void {
    const { activeElement: focused } = document;
    state = { ...state, ...changes };
    render(page);
    // If the focused element is gone, the keyboard must not begin at the top of the page again.
    if (focused?.isConnected === false && !isActing) document.querySelector('main')?.focus();
  }

  /** Stops polling, and starts it again if there is a session and the tab is visible. */
  function restartPolling(): void {
    polling.abort();
    polling = new AbortController();
    if (server.hasSession() && !document.hidden) pollUntilAborted(polling.signal);
  }

  async function pollUntilAborted(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const connectionProblem = await poll(signal).then(
        () => '',
        (error: Error) => error.message,
      );
      if (!signal.aborted) update({ connectionProblem });
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  /** Reads what the page shows. @throws Error with a message for the user */
  async function poll(signal: AbortSignal): Promise<void> {
    const get = (path: string) => server.send('GET', path, undefined, signal);
    const { log: before, route, isPaused } = state;
    const isStill = isPaused && before.cursor !== '' && before.text === route.text;
    const [response, faults, keys] = await Promise.all([
      isStill ? undefined : get(`requests?${pollQuery(before, route.text)}`),
      get('faults'),
      route.view === 'keys' ? get('keys') : state.keys,
    ]);
    if (signal.aborted) return;
    const log = response ? mergePoll(before, route.text, response as PollResponse) : before;
    // In another log, another request can have the number of the opened one.
    if (before.log !== '' && before.log !== log.log) page.go({ request: undefined }, true);
    update({ log, faults, keys } as Partial<State>);
  }

  /** Shows the view in the address, and restarts polling. With a code (`#c=…`) instead, signs in. */
  async function readAddress(): Promise<void> {
    const { hash } = location;
    if (!hash.startsWith('#c=')) {
      const route = parseRoute(hash, state.route);
      if (route.view !== state.route.view) scrollTo(0, 0);
      update({ route, message: noMessage });
      // Another view needs other data, and another search other requests.
      restartPolling();
      return;
    }
    // Remove the code at once, so that it is neither copied nor kept.
    history.replaceState(null, '', location.pathname + location.search);
    if (server.hasSession()) restartPolling();
    else update({ session: 'starting' });
    try {
      await server.signIn(hash.slice('#c='.length));
      beginSession();
    } catch (error) {
      // If there was a session before, it stays.
      update({ session: server.hasSession() ? 'begun' : 'none', signInProblem: (error as Error).message });
    }
  }

  function beginSession(): void {
    page.go({}, true);
    update({ session: 'begun', signInProblem: '' });
    restartPolling();
  }

  const page = {
    get state() {
      return state;
    },
    server,
    /** Runs an action of the user, and shows its message or error. Does nothing while another action runs. */
    async act(action: () => Promise<string>): Promise<void> {
      if (isActing) return;
      isActing = true;
      const message = await action().then(
        (text) => ({ text, isProblem: false }),
        (error: Error) => ({ text: error.message, isProblem: true }),
      );
      update({ message });
      isActing = false;
      // Stop the current poll, because its response may lack the change.
      restartPolling();
      // The button of the action may be gone.
      if (document.activeElement === document.body) document.getElementById('message')?.focus();
    },
    update,
    /** Adds a fault rule before the others. @throws Error with a message for the user */
    async addRule(rule: NewRule): Promise<string> {
      const faults = (await server.send('POST', 'faults', JSON.stringify(rule))) as Faults;
      update({ faults });
      const { match, number, times, ...effect } = faults.rules[0] as Rule;
      const count = times === undefined ? '' : ` (${formatCount(times, 'time')})`;
      return `Rule ${number} is added: ${matchLabel(match)} ${describeEffect(effect)}${count}`;
    },
    /** Deletes the recorded requests, for all who use the server. @throws Error with a message for the user */
    async clear(): Promise<string> {
      const log = (await server.send('DELETE', 'requests')) as PollResponse;
      page.go({ request: undefined }, true);
      update({ log: { ...log, text: state.route.text } });
      return 'The list is cleared';
    },
    /** Shows another route, and puts it into the address. With `replaces`, the history gets no new entry for it. */
    go(changes: Partial<Route>, replaces = false): void {
      const route = { ...state.route, ...changes };
      const isSearch = route.text !== state.route.text;
      if (replaces) history.replaceState(null, '', formatRoute(route));
      else history.pushState(null, '', formatRoute(route));
      update({ route, message: noMessage });
      if (isSearch) restartPolling();
    },
  };

  history.scrollRestoration = 'manual';
  addEventListener('popstate', readAddress);
  addEventListener('storage', () => {
    if (server.adoptSession()) beginSession();
  });
  document.addEventListener('visibilitychange', restartPolling);
  readAddress();
  return page;
}

const STORAGE_KEY = 'pets-session';

const storedToken = (): string => localStorage.getItem(STORAGE_KEY) ?? '';

/** The address of the service, without a slash at the end. A reverse proxy may serve it below a path. */
export const serviceUrl = (): string => new URL('.', location.href).href.slice(0, -1);

/** How long the page waits for the response to a `GET`. */
const TIMEOUT_MS = 8_000;

/** Sends requests with the token of the session, shared by all tabs. A 401 for it ends the session (`onSignedOut`). */
export function createToolsClient(onSignedOut: (message: string) => void) {
  let token = storedToken();

  /** Sends a request, and returns the JSON in the response. @throws Error with a message for the user */
  async function send(method: string, path: string, body?: string, signal?: AbortSignal): Promise<unknown> {
    const used = path === 'session' ? '' : token;
    const signals = [signal, method === 'GET' && AbortSignal.timeout(TIMEOUT_MS)].filter((each) => !!each);
    const { response, content } = await receive(path, {
      method,
      headers: {
        ...(used !== '' && { Authorization: `Bearer ${used}` }),
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
      },
      body: body ?? null,
      signal: AbortSignal.any(signals),
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
    });
    if (response.ok) return content;
    if (response.status !== 401) throw new Error(content.message ?? `HTTP status ${response.status}`);
    const message = 'The server was started again, or this address is old';
    // Another tab may have begun a new session in the meantime.
    if (used !== '' && used === token) {
      token = '';
      localStorage.removeItem(STORAGE_KEY);
      onSignedOut(message);
    }
    throw new Error(message);
  }

  return {
    send,
    hasSession: () => token !== '',
    /** Exchanges the code of an address for a session. @throws Error with a message for the user */
    async signIn(code: string): Promise<void> {
      const response = await send('POST', 'session', JSON.stringify({ code }));
      token = (response as { token: string }).token;
      localStorage.setItem(STORAGE_KEY, token);
    },
    /** Continues with a session that another tab has begun. Returns whether there is one. */
    adoptSession(): boolean {
      const stored = storedToken();
      const isNew = stored !== '' && stored !== token;
      if (isNew) token = stored;
      return isNew;
    },
  };
}

/** Returns a response and its JSON. @throws Error if no response arrives, or one that is not JSON, such as a proxy's */
async function receive(path: string, init: RequestInit) {
  try {
    const response = await fetch(path, init);
    return { response, content: (await response.json()) as { message?: string } };
  } catch (error) {
    throw new Error('The server does not respond', { cause: error });
  }
}
