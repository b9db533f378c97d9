import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ErrorCode } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import { API_PREFIX } from '../contract/operations.ts';
import type { Store } from '../store/store.ts';
import {
  type AuthenticationOptions,
  createAuthentication,
  type RequestContext,
} from './auth/authentication.ts';
import { corsHeaders, preflightHeaders } from './cors.ts';
import { mockResponse, preferredStatus } from './faults/mock-response.ts';
import { drawFault, type FaultOptions, type InjectedFault } from './faults/random-fault.ts';
import { handlerOf } from './handlers.ts';
import { notFound, ServiceError } from './http-errors.ts';
import { clientAddress, type IsTrustedProxy, peerAddress } from './request/client-address.ts';
import { createHostCheck } from './request/hosts.ts';
import { checkExpectation, checkHttpVersion } from './request/http-checks.ts';
import { readOperationInput } from './request/input.ts';
import { createRequestIds } from './request/request-id.ts';
import { splitTarget, validateTarget } from './request/target.ts';
import { type ResponseContent, rateLimitHeaders, type ServiceResponse, sendResponse } from './response.ts';
import { allDeprecationHeaders, allowedMethods, matchRoute } from './route-match.ts';
import { createUnversionedRoutes } from './unversioned-routes.ts';

/** A response, as the log reports it. It contains neither an API key nor the body of a request. */
export type AccessLogEntry = {
  /** When the response was sent, in milliseconds since the epoch. */
  time: number;
  /** The request id. */
  id: string;
  /** The IP address of the client. */
  client: string;
  /** The name of the API key; undefined if the request had no valid one. */
  keyName: string | undefined;
  /** `-` if the request was not valid HTTP. */
  method: string;
  url: string;
  status: number;
  /** The code of an error response. */
  code: ErrorCode | undefined;
  milliseconds: number;
};

export type AppOptions = AuthenticationOptions & {
  store: Store;
  /** The names that a Host header may have, besides loopback names; undefined allows every name. */
  hosts?: ReadonlySet<string> | undefined;
  /** The base URL as clients of a reverse proxy see it. */
  publicUrl?: string | undefined;
  /** The reverse proxies that report the addresses of their clients; undefined trusts none. */
  isTrustedProxy?: IsTrustedProxy | undefined;
  /** The origins whose pages may read responses; `*` allows every origin. */
  cors?: readonly string[] | undefined;
  /** Whether a request may ask for an error with `Prefer: code=429`; by default true. */
  allowPrefer?: boolean;
  faults?: FaultOptions | undefined;
  /** Waits for an injected latency, in milliseconds; returns early when the service stops. */
  sleep?: ((milliseconds: number) => Promise<void>) | undefined;
  /** Returns the response to `GET /metrics`; undefined if that route does not exist. */
  metrics?: (() => Promise<ResponseContent>) | undefined;
  onAccess?: ((entry: AccessLogEntry) => void) | undefined;
  /** Counts a response. `operation` is undefined if there is no such operation or route. */
  countResponse?:
    | ((operation: string | undefined, status: number, code: ErrorCode | undefined) => void)
    | undefined;
};

export type App = ReturnType<typeof createApp>;

const NO_FAULT: InjectedFault = { latency: 0, fails: false };

/** The whole service as a request handler; it does not listen. */
export function createApp(options: AppOptions) {
  const { store, clock, faults, cors = [], allowPrefer = true } = options;
  const { authenticate, consumeQuota, peekQuota, anonymousWindow } = createAuthentication(options);
  const checkHost = createHostCheck(options.hosts);
  const unversionedRoutes = createUnversionedRoutes(options);
  const requestId = createRequestIds();
  const basePath = options.publicUrl === undefined ? API_PREFIX : new URL(options.publicUrl).pathname;
  const deprecations = allDeprecationHeaders(basePath);
  // The latest request per connection. The response to a parser error reports the rate-limit window of that request.
  const contexts = new WeakMap<Socket, RequestContext>();
  let requestCount = 0;

  /** Responds to a request; never rejects. */
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // Reading clocks takes a noticeable part of a request, so the time is taken only for a log.
    const started = options.onAccess ? clock.elapsed() : 0;
    const { socket, method = '', url = '' } = request;
    const { target, targetHost } = splitTarget(method, url);
    request.url = target;
    const context = createContext(requestId(request), clientAddress(request, options.isTrustedProxy));
    if (cors.length > 0) Object.assign(context.headers, corsHeaders(request.headers.origin, cors));
    contexts.set(socket, context);
    // Requests outside the API, such as health checks, and OPTIONS requests never get an injected fault.
    const fault =
      faults && isUnderApi(target) && method !== 'OPTIONS' ? drawFault(faults, requestCount++) : NO_FAULT;
    try {
      const result = await runSteps(request, targetHost, context, fault).catch(toErrorResponse);
      const window = context.window ?? (await anonymousWindow(context.client));
      if (fault.latency > 0) await delay(socket, fault.latency);
      context.isFinished = true;
      // A parser error may have been sent as the response in the meantime.
      if (!response.headersSent) sendResponse(response, result, window, context.headers);
      const { statusCode: status } = response;
      const code = result instanceof ServiceError && result.status === status ? result.code : undefined;
      report(context, { method, url, status, code, started });
    } catch (error) {
      options.onError(error);
      response.destroy();
    }
  }

  /** The steps of a request in order (docs/service.md 4, 5, 8, 10). @throws ServiceError */
  async function runSteps(
    request: IncomingMessage,
    targetHost: string | undefined,
    context: RequestContext,
    fault: InjectedFault,
  ): Promise<ServiceResponse> {
    const { method = '', url = '' } = request;
    checkHttpVersion(request);
    context.host = checkHost(request, targetHost);
    if (!isUnderApi(url)) return unversionedRoutes(method, url, context);
    if (method === 'OPTIONS') return handleOptions(request, context);

    const route = matchRoute(method, url);
    if (!(route instanceof ServiceError)) {
      context.operation = route.operation;
      Object.assign(context.headers, deprecations.get(route.operation));
    }
    const principal = await authenticate(request, context);

    const { prefer } = request.headers;
    const status = prefer === undefined || !allowPrefer ? undefined : preferredStatus(String(prefer));
    if (status !== undefined) {
      // A mocked 401 reports the window of anonymous callers, so do not put the caller's window into `context`.
      const window = await peekQuota(principal, status === '401' ? { ...context, headers: {} } : context);
      if (status === '429') context.window = { ...window, remaining: 0 };
      if (route instanceof ServiceError) throw route;
      validateTarget(url);
      return mockResponse(status, { ...route, window, now: clock.now() });
    }
    if (fault.fails) {
      await peekQuota(principal, context);
      throw new ServiceError('injected_fault', 'Injected fault (--fail-rate)');
    }

    await consumeQuota(principal, context);
    // Throw a routing error only now: the request counts, and callers without an API key learn nothing about the routes.
    if (route instanceof ServiceError) throw route;
    checkExpectation(request);
    const input = await readOperationInput(route, request);
    return handlerOf(route.operation)(input, { store, principal, request, basePath, now: clock.now() });
  }

  /** Counts a response, and logs it if there is a log. */
  function report(
    { id, client, keyName, operation }: RequestContext,
    { started, ...entry }: Pick<AccessLogEntry, 'method' | 'url' | 'status' | 'code'> & { started: number },
  ): void {
    options.countResponse?.(operation, entry.status, entry.code);
    if (!options.onAccess) return;
    const milliseconds = clock.elapsed() - started;
    options.onAccess({ time: clock.now(), id, client, keyName, ...entry, milliseconds });
  }

  function toErrorResponse(error: unknown): ServiceResponse {
    if (error instanceof ServiceError) return error;
    options.onError(error);
    return new ServiceError('internal_error', 'Internal error');
  }

  /** Reports the methods of a path (D15). The request needs no API key, and is counted only if it has an invalid one. */
  async function handleOptions(request: IncomingMessage, context: RequestContext): Promise<ServiceResponse> {
    context.operation = 'options';
    // Like any other request, an OPTIONS request with an invalid API key gets 401 and counts as anonymous.
    if (request.headers.authorization) await peekQuota(await authenticate(request, context), context);
    const allow = allowedMethods(validateTarget(request.url ?? ''));
    if (allow === undefined) throw notFound();
    return { status: 204, headers: { [header.allow]: allow, ...preflightHeaders(cors, allow) }, body: '' };
  }

  /** Waits for an injected latency. Meanwhile, the connection has no idle timeout. */
  async function delay(socket: Socket, milliseconds: number): Promise<void> {
    const { timeout = 0 } = socket;
    socket.setTimeout(0);
    await options.sleep?.(milliseconds);
    socket.setTimeout(timeout);
  }

  return {
    handle,
    /** The response to bytes that Node's HTTP parser rejected, or to a refused connection. */
    async errorResponse(error: ServiceError, socket: Socket): Promise<ServiceResponse> {
      const { code, status, headers, body } = error;
      const latest = contexts.get(socket);
      // The handler of a request that the error interrupts logs the response.
      const isInterrupted = latest !== undefined && !latest.isFinished;
      const context = isInterrupted ? latest : createContext(requestId(), peerAddress(socket));
      const window = context.window ?? (await anonymousWindow(context.client));
      if (!isInterrupted) report(context, { method: '-', url: '-', status, code, started: clock.elapsed() });
      return { status, headers: { ...rateLimitHeaders(window), ...context.headers, ...headers }, body };
    },
  };
}

const createContext = (id: string, client: string): RequestContext => ({
  id,
  client,
  headers: { [header.requestId]: id },
});

const UNDER_API = new RegExp(`^${API_PREFIX}(?:[/?]|$)`);

const isUnderApi = (url: string): boolean => UNDER_API.test(url);
