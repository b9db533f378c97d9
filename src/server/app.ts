import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../contract/clock.ts';
import { header } from '../contract/headers.ts';
import { API_PREFIX } from '../contract/operations.ts';
import type { Store } from '../store/store.ts';
import { authenticate, type Caller, type KeyDirectory } from './auth.ts';
import { type Answer, callHandler } from './handlers.ts';
import { readInput } from './input.ts';
import type { Limiter, Window } from './limiter.ts';
import { deprecationHeaders, rateLimitHeaders, retryAfter } from './response-headers.ts';
import { allowedMethods, findResource } from './router.ts';
import { ServiceError } from './service-error.ts';
import { parseTarget } from './target.ts';

export type Answered = { method: string; url: string; status: number; milliseconds: number };

export type AppOptions = {
  store: Store;
  keys: KeyDirectory;
  limiter: Limiter;
  clock: Clock;
  /** Told of what is the service's own fault; the client sees only a 500. */
  onError(error: unknown): void;
  onAnswered?: ((answered: Answered) => void) | undefined;
};

/** What is known of a request so far: every answer, an error too, goes out with it. */
type Exchange = { window?: Window; headers: Record<string, string> };

/** The window that a caller without a valid key sees (design D13). */
const ANONYMOUS = { perMinute: 60, perDay: Number.POSITIVE_INFINITY };

/** The whole service; it does not listen. */
export type App = {
  /** Answers a request. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** The answer to what never became a request, because Node's parser refused it. */
  refuse(error: ServiceError, address: string | undefined): Promise<Answer>;
};

export function createApp(options: AppOptions): App {
  const { store, keys, limiter, clock } = options;

  async function respond(request: IncomingMessage, exchange: Exchange): Promise<Answer> {
    const url = request.url ?? '';
    if (!isUnderApi(url)) return outsideTheApi(request, parseTarget(url).path);
    if (request.method === 'OPTIONS') return describeResource(request, exchange);
    // Who asks comes before what is asked for: a stranger learns nothing, and what a caller gets wrong is counted.
    const caller = await identify(request, exchange);
    const { path, segments, query } = parseTarget(url);
    const resource = findResource(segments);
    if (resource === undefined) throw nothingAt(path);
    const route = resource.get(methodOf(request));
    if (route === undefined) {
      const allow = allowedMethods(resource);
      throw new ServiceError('method_not_allowed', `${path} allows ${allow}`, { [header.allow]: allow });
    }
    Object.assign(exchange.headers, deprecationHeaders(route.operation));
    const input = await readInput(route, query, request);
    return callHandler(route.operation, input, { store, caller, request, now: clock.now() });
  }

  async function identify(request: IncomingMessage, exchange: Exchange): Promise<Caller> {
    const caller = await authenticate(request, keys).catch(async (error) => {
      exchange.window = (await limiter.take(visitor(request.socket.remoteAddress), ANONYMOUS)).window;
      throw error;
    });
    const verdict = await limiter.take(caller.id, caller.quota);
    welcome(exchange, verdict.window);
    if (verdict.retryAt !== undefined) throw rateLimited(verdict.window, verdict.retryAt - clock.now());
    return caller;
  }

  /** The methods of a resource, for anybody and uncounted (design D15). */
  async function describeResource(request: IncomingMessage, exchange: Exchange): Promise<Answer> {
    const caller = await authenticate(request, keys).catch(() => undefined);
    if (caller) welcome(exchange, (await limiter.peek(caller.id, caller.quota)).window);
    const { path, segments } = parseTarget(request.url ?? '');
    const resource = findResource(segments);
    if (resource === undefined) throw nothingAt(path);
    return { status: 204, headers: { [header.allow]: allowedMethods(resource) }, body: '' };
  }

  function outsideTheApi(request: IncomingMessage, path: string): Answer {
    if (path !== '/healthz') {
      throw new ServiceError('not_found', `There is nothing at ${path}: the service is under ${API_PREFIX}`);
    }
    if (methodOf(request) !== 'GET') {
      throw new ServiceError('method_not_allowed', `${path} allows GET, HEAD`, {
        [header.allow]: 'GET, HEAD',
      });
    }
    return { status: 200, headers: {}, body: JSON.stringify({ status: 'ok', store: store.id }) };
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const started = clock.now();
    const exchange: Exchange = { headers: {} };
    const answer = await respond(request, exchange).catch((error) => errorAnswer(error, options.onError));
    const window = exchange.window ?? (await anonymousWindow(request.socket.remoteAddress));
    send(response, answer, { ...rateLimitHeaders(window), ...exchange.headers });
    options.onAnswered?.({
      method: request.method ?? '',
      url: request.url ?? '',
      status: answer.status,
      milliseconds: clock.now() - started,
    });
  }

  async function anonymousWindow(address: string | undefined): Promise<Window> {
    try {
      return (await limiter.peek(visitor(address), ANONYMOUS)).window;
    } catch (error) {
      // Every answer goes out, also when the limiter is what has failed.
      options.onError(error);
      return { limit: ANONYMOUS.perMinute, remaining: 0, resetAt: clock.now() };
    }
  }

  return {
    handle,
    async refuse(error, address) {
      const headers = { ...rateLimitHeaders(await anonymousWindow(address)), ...error.headers };
      return { status: error.status, headers, body: error.body };
    },
  };
}

/** What goes with every answer to a valid key. */
function welcome(exchange: Exchange, window: Window): void {
  exchange.window = window;
  exchange.headers[header.idempotencySupported] = 'true';
}

const nothingAt = (path: string): ServiceError =>
  new ServiceError('not_found', `There is nothing at ${path}`);

function rateLimited(window: Window, waitMilliseconds: number): ServiceError {
  const seconds = retryAfter(waitMilliseconds);
  return new ServiceError(
    'rate_limited',
    `The limit of ${window.limit} requests is used up: retry in ${seconds} s`,
    { [header.retryAfter]: String(seconds) },
  );
}

function errorAnswer(error: unknown, onError: AppOptions['onError']): Answer {
  if (!(error instanceof ServiceError)) onError(error);
  const known =
    error instanceof ServiceError ? error : new ServiceError('internal_error', 'The service has failed');
  return { status: known.status, headers: { ...known.headers }, body: known.body };
}

function send(response: ServerResponse, answer: Answer, headers: Record<string, string>): void {
  const body: Record<string, string | number> =
    answer.body === ''
      ? {}
      : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(answer.body) };
  response.writeHead(answer.status, { ...body, ...headers, ...answer.headers });
  response.end(answer.body);
}

const isUnderApi = (url: string): boolean =>
  url.startsWith(API_PREFIX) && ['', '/', '?'].includes(url.charAt(API_PREFIX.length));

const methodOf = (request: IncomingMessage): string =>
  request.method === 'HEAD' ? 'GET' : (request.method ?? '');

/** A caller without a valid key is counted by its address. */
const visitor = (address: string | undefined): string => `address ${address ?? 'unknown'}`;
