import type { Faults, Keys, ResetPlan } from './api-types.ts';
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
} from './request-log.ts';
import { createToolsClient } from './tools-client.ts';

/** The pause between two polls, in milliseconds. */
const PAUSE_MS = 500;

/** How long the page waits for more letters before it searches, in milliseconds. */
const TYPING_MS = 250;

/** Everything that the page shows. */
export type State = {
  route: Route;
  session: 'none' | 'starting' | 'begun';
  /** Why the session ended or the last attempt to sign in failed; empty otherwise. */
  signInProblem: string;
  /** Why the last poll failed; empty if it did not. */
  connectionProblem: string;
  log: RequestLog;
  /** Whether the list stands still. */
  isPaused: boolean;
  faults: Faults | undefined;
  keys: Keys | undefined;
  reset: ResetPlan | undefined;
};

export type Page = ReturnType<typeof runPage>;

/**
 * Creates the state of the page and the actions that change it, and calls `render` after each change. Reads the
 * address, listens to events of the browser, and polls the server while there is a session and the tab is visible.
 */
export function runPage(render: (page: Page) => void) {
  const server = createToolsClient((message) => {
    update({ session: 'none', signInProblem: message });
    restart();
  });
  let state: State = {
    route: parseRoute(location.hash, startRoute),
    session: server.hasSession() ? 'begun' : 'none',
    signInProblem: '',
    connectionProblem: '',
    log: emptyLog,
    isPaused: false,
    faults: undefined,
    keys: undefined,
    reset: undefined,
  };
  /** Aborted to stop the current polling. */
  let following = new AbortController();
  let typing: ReturnType<typeof setTimeout> | undefined;

  function update(changes: Partial<State>): void {
    state = { ...state, ...changes };
    render(page);
  }

  /** Stops polling, and starts it again if there is a session and the tab is visible. */
  function restart(): void {
    following.abort();
    following = new AbortController();
    if (server.hasSession() && !document.hidden) follow(following.signal);
  }

  async function follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const problems = await Promise.all([
        readRequests(signal),
        read('faults', signal, (faults) => ({ faults: faults as Faults })),
        state.reset === undefined && read('reset', signal, (reset) => ({ reset: reset as ResetPlan })),
        state.route.view === 'keys' && read('keys', signal, (keys) => ({ keys: keys as Keys })),
      ]);
      const connectionProblem = problems.find(Boolean) || '';
      if (!signal.aborted && connectionProblem !== state.connectionProblem) update({ connectionProblem });
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  async function readRequests(signal: AbortSignal): Promise<string> {
    const { log: before, route, isPaused } = state;
    const { text } = route.filter;
    if (isPaused && before.cursor !== '' && before.text === text) return '';
    return read(`requests?${pollQuery(before, text)}`, signal, (response) => {
      const log = mergePoll(before, text, response as PollResponse);
      // Another request may have the number of the opened one now.
      if (before.log !== '' && before.log !== log.log) page.go({ request: undefined }, true);
      return { log };
    });
  }

  /** Reads a part of the state. Returns the message of the error; empty if there was none. */
  async function read(
    path: string,
    signal: AbortSignal,
    onResponse: (response: unknown) => Partial<State>,
  ): Promise<string> {
    try {
      const response = await server.get(path, signal);
      if (!signal.aborted) update(onResponse(response));
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  }

  /** Shows the view in the address, and restarts polling. With a code (`#c=…`) instead, signs in. */
  async function readAddress(): Promise<void> {
    const { hash } = location;
    if (!hash.startsWith('#c=')) {
      const route = parseRoute(hash, state.route);
      if (route.view !== state.route.view) scrollTo(0, 0);
      update({ route });
      // Another view needs other data, and another search other requests.
      restart();
      return;
    }
    // Remove the code at once, so that it is neither copied nor kept.
    history.replaceState(null, '', location.pathname + location.search);
    if (server.hasSession()) restart();
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
    update({ session: 'begun', signInProblem: '', reset: undefined });
    restart();
  }

  const page = {
    get state() {
      return state;
    },
    server,
    update,
    /** Deletes the recorded requests, for all who use the server. @throws Error with a message for the user */
    async clear(): Promise<void> {
      const log = (await server.send('DELETE', 'requests')) as PollResponse;
      page.go({ request: undefined }, true);
      update({ log: { ...log, text: state.route.filter.text } });
      restart();
    },
    /** Lets the list stand still, or continues it. */
    pause(isPaused: boolean): void {
      update({ isPaused });
      restart();
    },
    /** Shows another route, and puts it into the address. With `replaces`, the history gets no new entry for it. */
    go(changes: Partial<Route>, replaces = false): void {
      const route = { ...state.route, ...changes };
      const isSearch = route.filter.text !== state.route.filter.text;
      if (replaces) history.replaceState(null, '', formatRoute(route));
      else history.pushState(null, '', formatRoute(route));
      update({ route });
      clearTimeout(typing);
      if (isSearch) typing = setTimeout(restart, TYPING_MS);
    },
  };

  history.scrollRestoration = 'manual';
  addEventListener('popstate', readAddress);
  addEventListener('storage', () => {
    if (server.adoptSession()) beginSession();
  });
  document.addEventListener('visibilitychange', restart);
  readAddress();
  return page;
}
