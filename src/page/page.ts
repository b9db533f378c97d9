import type { FaultSettings, Keys, ResetPlan } from './api-types.ts';
import type { AddedRule } from './faults.ts';
import {
  announcementOf,
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
import { createToolsClient } from './server.ts';

/** The pause between two polls, in milliseconds. */
const PAUSE_MS = 500;

/** The shortest time between two announcements of new requests, in milliseconds. */
const ANNOUNCE_MS = 5_000;

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
  faults: FaultSettings | undefined;
  /** The rule that was added last for one request. The list shows the affected request at once. */
  addedRule: AddedRule | undefined;
  keys: Keys | undefined;
  reset: ResetPlan | undefined;
  /** What a screen reader reads when it has finished what it is reading. */
  announcement: string;
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
    faults: undefined,
    addedRule: undefined,
    keys: undefined,
    reset: undefined,
    announcement: '',
  };
  /** Aborted to stop the current polling. */
  let following = new AbortController();
  let lastAnnounced = 0;
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
        read('faults', signal, (faults) => ({ faults: faults as FaultSettings })),
        state.reset === undefined && read('reset', signal, (reset) => ({ reset: reset as ResetPlan })),
        state.route.view === 'keys' && read('keys', signal, (keys) => ({ keys: keys as Keys })),
      ]);
      const connectionProblem = problems.find(Boolean) || '';
      if (!signal.aborted && connectionProblem !== state.connectionProblem) update({ connectionProblem });
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  function readRequests(signal: AbortSignal): Promise<string> {
    const { log: before, route } = state;
    const { text } = route.filter;
    return read(`requests?${pollQuery(before, text)}`, signal, (response) => {
      const log = mergePoll(before, text, response as PollResponse);
      const isQuiet = before.cursor === undefined || before.text !== text || route.view !== 'requests';
      const news = announcementOf((response as PollResponse).requests);
      if (isQuiet || news === undefined || Date.now() - lastAnnounced < ANNOUNCE_MS) return { log };
      lastAnnounced = Date.now();
      return { log, announcement: news };
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
    // The numbers of requests begin again if the server has been restarted.
    page.go({ request: undefined }, true);
    update({ session: 'begun', signInProblem: '', log: emptyLog, addedRule: undefined, reset: undefined });
    restart();
  }

  const page = {
    /** The number of the opened request whose row was scrolled into view. */
    scrolledTo: undefined as number | undefined,
    get state() {
      return state;
    },
    server,
    update,
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
