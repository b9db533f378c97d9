import type { Faults, Keys } from './api-types.ts';
import { effectOf, matchLabel, type NewRule, type Rule } from './faults.ts';
import { emptyLog, mergePoll, type PollResponse, pollQuery, type RequestLog } from './request-log.ts';
import { formatRoute, parseRoute, type Route, startRoute } from './route.ts';
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
  /** What the last action of the user has done, or why it failed. */
  message: { text: string; isProblem: boolean };
  log: RequestLog;
  /** Whether the list stands still. */
  isPaused: boolean;
  faults: Faults | undefined;
  keys: Keys | undefined;
};

const noMessage = { text: '', isProblem: false };

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
    message: noMessage,
    log: emptyLog,
    isPaused: false,
    faults: undefined,
    keys: undefined,
  };
  /** Aborted to stop the current polling. */
  let following = new AbortController();
  let isActing = false;
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
    // In another log, another request has the number of the opened one.
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
    update({ session: 'begun', signInProblem: '' });
    restart();
  }

  const page = {
    get state() {
      return state;
    },
    server,
    /** Runs an action of the user, one at a time. Shows what it has done, or the message of its error. */
    async act(action: () => Promise<string>): Promise<void> {
      if (isActing) return;
      isActing = true;
      try {
        update({ message: { text: await action(), isProblem: false } });
      } catch (error) {
        update({ message: { text: (error as Error).message, isProblem: true } });
      }
      isActing = false;
      // Forget the response to an earlier poll, which does not have the change.
      restart();
      // The button of the action may be gone.
      if (document.activeElement === document.body) document.getElementById('message')?.focus();
    },
    update,
    /** Adds a fault rule before the others. @throws Error with a message for the user */
    async addRule(rule: NewRule): Promise<string> {
      const faults = (await server.send('POST', 'faults', JSON.stringify(rule))) as Faults;
      update({ faults });
      const { match, number, ...effect } = faults.rules[0] as Rule;
      return `Rule ${number} is added: ${matchLabel(match)} ${effectOf(effect)}`;
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
