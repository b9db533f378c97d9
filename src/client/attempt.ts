/// <reference path="./undici.d.ts" />

import type { Socket } from 'node:net';
import type { Dispatcher } from 'undici';
import buildConnector from 'undici/lib/core/connect.js';
import Agent from 'undici/lib/dispatcher/agent.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import type { Operation } from '../contract/operations.ts';
import type { Clock } from '../system/clock.ts';
import { InterruptedError } from '../system/interrupted-error.ts';
import {
  type ClientError,
  ContractError,
  DeferredError,
  errorCodeOf,
  NetworkError,
  ProtocolError,
  ProxyError,
  TimeoutError,
} from './errors.ts';
import { decodeBody, type HttpResponse, MAX_RESPONSE_BYTES, parseErrorBody, TOO_LARGE } from './response.ts';

export type Attempt = {
  method: Operation['method'];
  url: URL;
  headers: Record<string, string>;
  body?: string | undefined;
  /** Limits the whole attempt, from connecting to the last byte of the response. */
  timeoutMilliseconds: number;
  signal: AbortSignal;
  isSuccess(status: number): boolean;
  /** Called when a connection is ready, before sending. If it returns false, the attempt ends with a DeferredError. */
  canSend(): boolean;
};

/**
 * The result of an attempt. `error` is a NetworkError, a TimeoutError, a DeferredError, a ContractError if a successful
 * response is too large, or an InterruptedError; then `wasSent` is true if the service may have received the request.
 */
export type AttemptOutcome =
  | { response: HttpResponse }
  | { error: ClientError | InterruptedError; wasSent?: boolean | undefined };

/** Milliseconds from the start of an attempt to each step and to the end (`whole`). Undefined for steps not reached. */
export type Timings = { connected?: number; firstByte?: number; whole: number };

export type AttemptResult = { outcome: AttemptOutcome; timings: Timings };

export type TransportOptions = {
  clock: Clock;
  /** The URL of an HTTP proxy for all requests; it may contain a user and password. */
  proxy?: string | undefined;
  /** Starts a timer and returns a handle, with which `clearTimeout` cancels the timer. */
  startTimer?: ((callback: () => void, milliseconds: number) => NodeJS.Timeout | undefined) | undefined;
};

export type Transport = ReturnType<typeof createTransport>;

/** Sends single attempts over connections that it keeps open. Does not retry and does not follow redirects. */
export function createTransport({ clock, proxy, startTimer = setTimeout }: TransportOptions) {
  const dispatcher =
    proxy === undefined ? new Agent({ ...CONNECTION_OPTIONS, factory: createPool }) : createProxyAgent(proxy);
  return {
    send: async (attempt: Attempt) => runAttempt(await dispatcher, attempt, clock, startTimer),
    close: async () => (await dispatcher).destroy(),
  };
}

const CONNECTION_OPTIONS = {
  // Undici's timeouts are off. `Attempt.timeoutMilliseconds` replaces them, and also covers the name lookup.
  headersTimeout: 0,
  bodyTimeout: 0,
  connect: { timeout: 0 },
  // HTTP/2 must be off, because the build leaves out undici's HTTP/2 client.
  allowH2: false,
} as const;

/** Creates the connections to an origin, directly or through a proxy. */
function createPool(origin: string | URL, { connect }: Pool.Options): Pool {
  const connector =
    typeof connect === 'function'
      ? connect
      : buildConnector({ ...CONNECTION_OPTIONS.connect, allowH2: false });
  return new Pool(origin, {
    ...CONNECTION_OPTIONS,
    connect: (options, callback) =>
      connector(options, (...result) => {
        if (result[1]) skipContinue(result[1]);
        callback(...result);
      }),
  });
}

// Matches interim responses with status 100 at the start of a chunk. No part of a JSON body matches, because only a
// string can contain `HTTP/1.1`, and a string has no line breaks.
const CONTINUE = /^(?:HTTP\/1\.[01] 100[^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n)+/;

/** Hides interim responses with status 100 from undici, which would close the connection because pets asks for none. */
function skipContinue(socket: Socket): void {
  const read = socket.read.bind(socket);
  socket.read = (size) => {
    const chunk: Buffer | null = read(size);
    if (!chunk?.toString('latin1', 0, 12).endsWith(' 100')) return chunk;
    const { length } = CONTINUE.exec(chunk.toString('latin1'))?.[0] ?? '';
    return length === chunk.length ? null : chunk.subarray(length);
  };
}

/**
 * Runs one attempt; never rejects. Undici calls `onRequestStart` when it has a connection, before it writes the first
 * byte. If an error occurs before that call, nothing was sent. If it occurs later, the request may have been applied.
 */
export function runAttempt(
  dispatcher: Dispatcher,
  attempt: Attempt,
  clock: Clock,
  startTimer: NonNullable<TransportOptions['startTimer']>,
): Promise<AttemptResult> {
  const { url, method, headers, body, timeoutMilliseconds, signal } = attempt;
  const startedAt = clock.now();
  const timings: Timings = { whole: 0 };
  const response: HttpResponse = { status: 0, headers: {}, body: '' };
  const chunks: Buffer[] = [];
  let size = 0;
  let sent = false;
  let ended = false;
  let controller: Dispatcher.DispatchController | undefined;

  return new Promise((resolve) => {
    function end(outcome: AttemptOutcome): void {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', interrupt);
      resolve({ outcome, timings: { ...timings, whole: clock.now() - startedAt } });
    }
    function fail(error: ClientError | InterruptedError, wasSent?: boolean): void {
      end({ error, wasSent });
      controller?.abort(error);
    }
    const expire = () => fail(new TimeoutError(timeoutMilliseconds, { sent }));
    const interrupt = () => fail(new InterruptedError(), sent);
    // A slow reader of our output may have blocked the process. First read the data that has arrived, then expire.
    const timer = startTimer(() => setImmediate(expire), timeoutMilliseconds);
    signal.addEventListener('abort', interrupt);
    if (signal.aborted) return interrupt();

    const request = {
      origin: url.origin,
      path: url.pathname + url.search,
      method,
      headers,
      body: body ?? null,
    };
    dispatcher.dispatch(request, {
      onRequestStart(requestController) {
        controller = requestController;
        timings.connected ??= clock.now() - startedAt;
        if (ended) controller.abort(new Error('the attempt has already ended'));
        else if (attempt.canSend()) sent = true;
        else fail(new DeferredError('deferred by a cool-down'));
      },
      onResponseStart(_, statusCode, responseHeaders) {
        timings.firstByte ??= clock.now() - startedAt;
        // Undici calls this for interim (1xx) responses too. The last call is for the final response.
        response.status = statusCode;
        response.headers = responseHeaders;
      },
      onResponseData(_, chunk) {
        size += chunk.length;
        if (size <= MAX_RESPONSE_BYTES) return void chunks.push(chunk);
        const error = new ContractError(response.status, `unexpected response: ${TOO_LARGE}`);
        // The status of an error response shows enough without the body.
        if (!attempt.isSuccess(response.status)) end({ response: { ...response, unreadable: TOO_LARGE } });
        fail(error);
      },
      onResponseEnd() {
        Object.assign(response, decodeBody(Buffer.concat(chunks), response.headers));
        if (response.status >= 400) response.code = parseErrorBody(response)?.code;
        end({ response });
      },
      onResponseError(_, cause) {
        const proxyError = !(dispatcher instanceof Agent) && proxyErrorOf(cause, url, sent);
        if (proxyError) return end({ error: proxyError });
        if (cause.name === 'HTTPParserError') return end({ error: new ProtocolError(cause) });
        const code = errorCodeOf(cause);
        // Undici uses this code if it refuses to send a request.
        const wasSent = sent && code !== 'UND_ERR_INVALID_ARG';
        const message = cause.message || String(code ?? cause);
        end({ error: new NetworkError(message, { code, sent: wasSent, cause }) });
      },
    });
  });
}

/**
 * A dispatcher that sends every request through a proxy. For https, it opens a tunnel (CONNECT). For http, it sends the
 * absolute URL to the proxy. `address` is the URL of the proxy, which may contain a user and password.
 */
async function createProxyAgent(address: string): Promise<Dispatcher> {
  // Most users have no proxy, so these modules are loaded only here.
  const [{ default: ProxyAgent }, { default: openTunnel }] = await Promise.all([
    import('undici/lib/dispatcher/proxy-agent.js'),
    import('undici/lib/api/api-connect.js'),
  ]);

  /** Connections to the proxy, in which tunnels are opened. Every error in opening a tunnel comes from the proxy. */
  class TunnelPool extends Pool {
    override async connect(request: Dispatcher.ConnectOptions): Promise<Dispatcher.ConnectData> {
      // Not `super.connect`, because only the entry point of undici adds that method.
      const result = await openTunnel.call(this, request).catch((cause) => {
        throw new ProxyError({ cause });
      });
      const { statusCode, socket } = result;
      if (statusCode === 200) return result;
      socket.on('error', () => {}).destroy();
      throw new ProxyError({ status: statusCode });
    }
  }

  const { username, password } = new URL(address);
  const credentials = [username, password].map(decodeURIComponent).join(':');
  return new ProxyAgent({
    ...CONNECTION_OPTIONS,
    factory: createPool,
    uri: address,
    ...(username && { token: `Basic ${Buffer.from(credentials).toString('base64')}` }),
    // Use CONNECT for https only: many proxies refuse it for port 80.
    proxyTunnel: false,
    clientFactory: (origin: URL, poolOptions: object) => new TunnelPool(origin, poolOptions),
  });
}

/** The error of the proxy that made a request fail; undefined if the proxy is not the cause. */
function proxyErrorOf(cause: Error, url: URL, isSent: boolean): ProxyError | undefined {
  // Undici wraps the error of a proxy whose certificate is for another name.
  for (const error of [cause, cause.cause]) if (error instanceof ProxyError) return error;
  if (url.protocol === 'https:') return undefined;
  // Without a tunnel, the only connection is to the proxy. An error before the request is sent comes from the proxy.
  if (!isSent) return new ProxyError({ cause });
  // Undici converts a response with status 407 to an error with this message.
  const isRefused = cause.message === 'Proxy Authentication Required (407)';
  return isRefused ? new ProxyError({ status: 407 }) : undefined;
}
