import { getDefaultAutoSelectFamilyAttemptTimeout, setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';
import type { Dispatcher } from 'undici';
import buildConnector from 'undici/lib/core/connect.js';
import Agent from 'undici/lib/dispatcher/agent.js';
import type { Operation } from '../contract/api.ts';
import { InterruptedError } from '../system/clock.ts';
import { type ClientError, INCOMPLETE_RESPONSE, NetworkError, toAttemptError } from './errors.ts';
import type { ConnectionOptions, Route } from './proxy-agent.ts';
import { decodeBody, errorCodeIn, type HttpResponse, MAX_RESPONSE_BYTES, TOO_LARGE } from './response.ts';

// One attempt: undici sends the request and receives the response. Its retries, redirects and timeouts are off: the client
// must know whether anything was sent, only --timeout and --max-time may limit an attempt, and a request must be held back
// if another process has started a wait while the connection was opened.

export type Attempt = {
  method: Operation['method'];
  url: URL;
  headers: Record<string, string>;
  body?: string | undefined;
  /** Limits the whole attempt, from connecting to the last byte of the response, in milliseconds. */
  timeout: number;
  signal: AbortSignal;
  /** Called when a connection is ready, before sending. If it returns false, nothing is sent, and there is no outcome. */
  canSend(): boolean;
};

/**
 * The result of an attempt. `error` is a NetworkError, a ContractError if the headers are too large, or an InterruptedError.
 * `wasSent` is set only with an InterruptedError: it is true if the service may have received the request.
 */
export type AttemptOutcome =
  | { response: HttpResponse }
  | { error: ClientError | InterruptedError; wasSent?: boolean | undefined };

export type TransportOptions = {
  /** The URL of an HTTP proxy for all requests; it may contain a user and password. */
  proxy?: string | undefined;
  /** Starts a timer and returns a handle, with which `clearTimeout` cancels the timer. */
  startTimer?: ((callback: () => void, milliseconds: number) => NodeJS.Timeout | undefined) | undefined;
};

export type Transport = ReturnType<typeof createTransport>;

/** Sends single attempts over connections that it keeps open. Sends nothing twice, and follows no redirects. */
export function createTransport(options: TransportOptions) {
  const { proxy } = options;
  const route: Route | Promise<Route> =
    proxy === undefined
      ? { dispatcher: new Agent({ ...CONNECTION_OPTIONS, connect }), toError: toAttemptError }
      : // Most users have no proxy, so this module is loaded only here.
        import('./proxy-agent.ts').then(({ routeThrough }) => routeThrough(proxy, CONNECTION_OPTIONS));
  return {
    send: async (attempt: Attempt) => runAttempt(await route, attempt, options),
    close: async () => (await route).dispatcher.destroy(),
  };
}

const CONNECTION_OPTIONS: ConnectionOptions = {
  // Undici's timeouts are off. `Attempt.timeout` replaces them, and also covers the name lookup.
  headersTimeout: 0,
  bodyTimeout: 0,
  connect: { timeout: 0 },
  // HTTP/2 must be off, because the build leaves out undici's HTTP/2 client.
  allowH2: false,
};

/** Connects with a limit, after which `allowMoreTime` applies: Node would wait for the last address of a host, even if it is silent. */
const connect: buildConnector.connector = (options, callback) =>
  buildConnector({ timeout: 10 * getDefaultAutoSelectFamilyAttemptTimeout() })(options, callback);

/**
 * Runs one attempt; never rejects. Undici calls `onRequestStart` when it has a connection, before it writes the first
 * byte. If an error occurs before that call, nothing was sent. If it occurs later, the request may have been applied.
 */
export function runAttempt(
  { dispatcher, toError }: Route,
  attempt: Attempt,
  { startTimer = setTimeout }: TransportOptions,
): Promise<AttemptOutcome | undefined> {
  const { url, method, headers, body, timeout, signal } = attempt;
  const response: HttpResponse = { status: 0, headers: {}, body: '' };
  const chunks: Buffer[] = [];
  let size = 0;
  let sent = false;
  let ended = false;
  let controller: Dispatcher.DispatchController | undefined;

  return new Promise((resolve) => {
    function end(outcome: AttemptOutcome | undefined): void {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', interrupt);
      resolve(outcome);
    }
    function fail(error: ClientError | InterruptedError, wasSent?: boolean): void {
      end({ error, wasSent });
      controller?.abort(error);
    }
    const expire = () =>
      fail(new NetworkError(`timed out after ${Math.ceil(timeout) / 1_000} s`, { code: 'timeout', sent }));
    const interrupt = () => fail(new InterruptedError(), sent);
    // A slow reader of our output may have blocked the process. First read the data that has arrived, then expire.
    const timer = startTimer(() => setImmediate(expire), timeout);
    signal.addEventListener('abort', interrupt);
    if (signal.aborted) return interrupt();

    const handler: Dispatcher.DispatchHandler = {
      onRequestStart(requestController) {
        controller = requestController;
        sent = !ended && attempt.canSend();
        if (sent) return;
        end(undefined);
        controller.abort(new Error('the attempt has ended, or must not be sent now'));
      },
      onResponseStart(_, statusCode, responseHeaders) {
        // Undici calls this for interim (1xx) responses too. The last call is for the final response.
        response.status = statusCode;
        response.headers = responseHeaders;
      },
      onResponseData(_, chunk) {
        size += chunk.length;
        if (size <= MAX_RESPONSE_BYTES) return void chunks.push(chunk);
        end({ response: { ...response, unreadable: TOO_LARGE } });
        controller?.abort(new Error(TOO_LARGE));
      },
      onResponseEnd() {
        const { isCut, ...decoded } = decodeBody(Buffer.concat(chunks), response.headers);
        if (isCut && response.status < 300)
          return end({ error: new NetworkError(INCOMPLETE_RESPONSE, { errno: 'INCOMPLETE', sent: true }) });
        Object.assign(response, decoded);
        if (response.status >= 400) response.code = errorCodeIn(response.body);
        end({ response });
      },
      onResponseError(_, cause) {
        if (!sent && !ended && allowMoreTime(cause, timeout)) return dispatch();
        end({ error: toError(cause, sent) });
      },
    };
    function dispatch(): void {
      const { origin, pathname, search } = url;
      dispatcher.dispatch({ origin, path: pathname + search, method, headers, body: body ?? null }, handler);
    }
    dispatch();
  });
}

/**
 * If Node gave up one of several addresses of a host, or the limit of `connect` passed, gives each address four times as much
 * time in all later connections of this process, and returns true. Node's default, 250 or 500 ms, is too short for a far host
 * or a slow network. An address never gets more time than an attempt.
 */
function allowMoreTime(cause: Error, limit: number): boolean {
  const errors: { code?: string }[] = [cause, cause.cause ?? {}].flatMap((error) =>
    error instanceof AggregateError ? error.errors : error,
  );
  const current = getDefaultAutoSelectFamilyAttemptTimeout();
  const isLate = errors.some(({ code }) => code === 'ETIMEDOUT' || code === 'UND_ERR_CONNECT_TIMEOUT');
  if (current >= limit || !isLate) return false;
  setDefaultAutoSelectFamilyAttemptTimeout(Math.ceil(Math.min(4 * current, limit)));
  return true;
}
