import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { SteadyClock } from '../contract/clock.ts';
import type { ErrorCode } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import { StoreUnavailableError } from '../store/errors.ts';
import type { Limiter, MemoryLimiter, RateLimitDecision } from '../store/limits/limiter.ts';
import {
  type AuthenticationOptions,
  anonymousWindow,
  type Caller,
  createAuthentication,
  hashOfCredential,
} from './authentication.ts';
import {
  CredentialError,
  notFound,
  ServiceError,
  serviceStarting,
  storageError,
  tooManyRequests,
} from './errors.ts';
import { type Faults, mockResponse, parsePrefer } from './faults.ts';
import { checkExpectation, checkHost, checkHttp, checkSameOrigin } from './request/checks.ts';
import { createClientAddress, type IsTrustedProxy } from './request/client-address.ts';
import {
  createContext,
  createRequestIds,
  type RequestContext,
  type RequestedMock,
} from './request/context.ts';
import {
  checkTarget,
  hasBody,
  isUnderApi,
  parseQuery,
  pathOf,
  readJsonBody,
  splitTarget,
} from './request/input.ts';
import {
  completeResponse,
  corsHeaders,
  optionsResponse,
  preflightResponse,
  type RawHeaders,
  type ServiceResponse,
} from './response.ts';
import {
  allMethodsHeader,
  asGet,
  createPathFinder,
  createPaths,
  noRoute,
  type OperationRoute,
  type OtherPath,
  type PathMatch,
  type RoutesOptions,
} from './routes.ts';
import type { Recorder, RequestEnd } from './tools/recorder.ts';

/** The options that do not need an open store. */
type CommonOptions = {
  clock: SteadyClock;
  anonymousLimiter: MemoryLimiter;
  /** The origins whose pages may read responses; `*` allows every origin. */
  cors?: readonly string[] | undefined;
  /** Undefined if no reverse proxy is trusted. */
  isTrustedProxy?: IsTrustedProxy | undefined;
  /** Called for each response that belongs in the access log. The request contains secrets: see `createRequestRedactors`. */
  onAccess?: ((request: RequestContext, end: RequestEnd) => void) | undefined;
  onWarning?: ((message: string) => void) | undefined;
  /** Receives internal errors. */
  onError(error: unknown): void;
};

export type AppOptions = CommonOptions &
  AuthenticationOptions &
  RoutesOptions & {
    /** Counts the requests of each API key. */
    limiter: Limiter;
    /** The names that a Host header may have, besides loopback names; undefined allows every name. */
    hosts?: ReadonlySet<string> | undefined;
    /** By default, no faults are injected. */
    faults?: Faults | undefined;
    /** Waits for an injected latency, in milliseconds; returns early when the service stops. */
    sleep?: ((milliseconds: number) => Promise<void>) | undefined;
    /** Counts a response. `operation` is undefined if the request was refused before its route was found. */
    countResponse?:
      | ((operation: string | undefined, status: number, code: ErrorCode | undefined) => void)
      | undefined;
    /** The developer tools. If undefined, there are none, and `Prefer` has no effect. */
    tools?: { recorder?: Recorder } | undefined;
  };

/** Responds to a request, or, with an error, to bytes that are not a request. Never rejects. */
export type App = (request: IncomingMessage, response: ServerResponse, error?: ServiceError) => Promise<void>;

const INTERNAL_ERROR = new ServiceError('internal_error', 'Internal error');

/** Responds 503 `starting` to every request, until the store is open (docs/service.md 7). */
export function createStartingApp(options: CommonOptions): App {
  const { cors = [], onError } = options;
  const { arrive, respond } = createResponder(options);
  return guarded(onError, async (request, response, error = serviceStarting()) => {
    const result = preflightResponse(request, cors) ?? error;
    respond(arrive(request), request, response, result, corsHeaders(request, cors));
  });
}

/**
 * The whole service as a request handler; it does not listen. A request passes these steps in order: target and host, key,
 * count, input, run, respond, record. Each step returns a value, or throws a ServiceError, which becomes the response.
 */
export function createApp(options: AppOptions): App {
  const { cors = [], faults, limiter, tools, publicUrl, onError } = options;
  const { arrive, respond } = createResponder(options);
  const { authenticate, checkNotRevoked, checkDeveloper, countGuess } = createAuthentication(options);
  const find = createPathFinder(createPaths(options));

  const handle: App = async (request, response, invalid) => {
    const context = arrive(request);
    const { method = '', url = '' } = request;
    const { target, targetHost } = splitTarget(method, url);
    request.url = target;
    const isApi = isUnderApi(target);
    const found = find(target);
    // The prefix of the API must not be percent-encoded.
    const path = found?.access === 'key' && !isApi ? undefined : found;
    const isTool = path?.kind === 'tool' || path?.kind === 'page';
    // The tools get no CORS headers, because pages of other origins must not read how the service is used.
    const headers = isTool ? [] : corsHeaders(request, cors);
    // Requests outside the API, such as health checks, and OPTIONS requests never get an injected fault.
    const fault = isApi && method !== 'OPTIONS' ? faults?.nextRandom() : undefined;
    context.latency = fault?.latency ?? 0;
    // Requests for tools, their page and health checks are not recorded (`OtherPath.kind`).
    if (path === undefined || path.kind === 'public') tools?.recorder?.begin(context);
    const run = async (): Promise<ServiceResponse> => {
      if (invalid) throw invalid;
      const preflight = isTool ? undefined : preflightResponse(request, cors);
      if (preflight) return preflight;
      checkHttp(request, url);
      // Health checks often use the address of the server as Host. Their responses need no protection.
      checkHost(request, targetHost, path?.kind === 'health' ? undefined : options.hosts);
      if (method === 'OPTIONS') return listMethods(request, context, headers, path);
      if (path?.access === 'key') return runOperation(request, context, headers, path, fault?.mock);
      if (isApi) return runOperation(request, context, headers);
      return runOther(request, context, headers, path);
    };
    const result = await run().catch((error) => toErrorResponse(error, request, context));
    if (context.latency > 0) await delay(request.socket, context.latency);
    respond(context, request, response, result, headers, !isTool);
  };

  /** Carries out an operation (docs/service.md 4, 5 and 8). Without a path, counts the request and responds 404. */
  async function runOperation(
    request: IncomingMessage,
    context: RequestContext,
    headers: string[],
    path?: OperationPath,
    randomMock?: RequestedMock,
  ): Promise<ServiceResponse> {
    const { method, url = '' } = request;
    const route = path?.methods[asGet(method)];
    if (route) applyRoute(route, context, headers);
    const caller = await authenticate(request);
    context.keyName = caller.name;
    const asked = path && route && askedResponse(request, context, path, route, randomMock);
    // A mocked 401 looks like the response to a request without a valid key.
    if (asked?.status !== 401) headers.push(header.idempotencySupported, 'true');
    if (asked) return mock(asked, caller, context, headers, { path: pathOf(url), allow: path.allow, route });
    const rateLimit = await count(caller, context);
    // Throw this error only now: the request counts, and callers without an API key learn nothing about the routes.
    if (path === undefined || route === undefined) throw noRoute(path, url);
    checkExpectation(request);
    const query = parseQuery(url);
    const body = route.readsBody ? await readJsonBody(request) : undefined;
    // The body can arrive long after the headers, and the key can have been revoked meanwhile.
    if (hasBody(request)) await checkNotRevoked(caller);
    const call = { request, caller, rateLimit, params: path.params, query, body };
    return withStorageErrors(request, () => route.run(call));
  }

  /** Counts a request against the limits of its caller. @throws ServiceError 429, StoreError */
  async function count({ id, quota }: Caller, context: RequestContext): Promise<RateLimitDecision> {
    const decision = await limiter.take(id, quota);
    context.window = decision.window;
    context.isDay = decision.window === decision.windows.day;
    context.isCounted = decision.retryAt === undefined;
    if (decision.retryAt !== undefined) throw tooManyRequests(decision);
    return decision;
  }

  /** The response that `Prefer`, a rule or a random fault asks for; undefined if none does. Sets the latency of a rule. */
  function askedResponse(
    { method = '', headers: { prefer } }: IncomingMessage,
    context: RequestContext,
    { params }: OperationPath,
    { label }: OperationRoute,
    randomMock: RequestedMock | undefined,
  ): RequestedMock | undefined {
    const preferred = prefer === undefined || !tools ? undefined : parsePrefer(String(prefer));
    if (preferred) return preferred;
    const rule = faults?.applyRule({ method, operation: label, params });
    if (rule?.latency !== undefined) context.latency = rule.latency;
    return rule?.mock ?? randomMock;
  }

  /**
   * Makes a response that was asked for. The operation does not run, and the request is not counted. But if the limit
   * is used up, a client that asks with `Prefer` gets the real 429, so that it cannot make a ban invisible.
   */
  async function mock(
    asked: RequestedMock,
    caller: Caller,
    context: RequestContext,
    headers: string[],
    { path, allow, route }: { path: string; allow: string; route: OperationRoute },
  ): Promise<ServiceResponse> {
    const { status, retryAfter, applied } = asked;
    const { window, windows, now, retryAt } = await limiter.peek(caller.id, caller.quota);
    context.window = window;
    // `count` throws the 429, unless the limit or the ban has ended since; then the request counts, and is mocked.
    if (applied !== undefined && retryAt !== undefined) await count(caller, context);
    const shown = retryAfter ? { ...window, resetAt: now + retryAfter * 1_000 } : window;
    const rateLimit = { window: shown, windows, now };
    const response = mockResponse(asked, route.label, { path, allow, rateLimit });
    context.asked = asked;
    if (status === 429) context.window = { ...shown, remaining: 0 };
    if (status === 401) context.window = undefined;
    if (applied !== undefined) headers.push(header.preferenceApplied, applied);
    return response;
  }

  /** Reports the methods of a path (D15). The request needs no API key, but an invalid one gets 401. */
  async function listMethods(
    request: IncomingMessage,
    context: RequestContext,
    headers: string[],
    path: PathMatch | undefined,
  ): Promise<ServiceResponse> {
    const { url = '' } = request;
    context.operation = 'options';
    if (isUnderApi(url) && request.headers.authorization) {
      const caller = await authenticate(request);
      context.keyName = caller.name;
      headers.push(header.idempotencySupported, 'true');
      context.window = (await limiter.peek(caller.id, caller.quota)).window;
    }
    // Both targets mean the whole server: `*` by RFC 9110, 9.3.7, and `/` because HAProxy checks it by default.
    if (url === '*' || url === '/') return optionsResponse(allMethodsHeader);
    checkTarget(url);
    if (path === undefined) throw notFound();
    return optionsResponse(path.allow);
  }

  /** Carries out a request outside the API (docs/service.md 12; docs/testing.md). */
  async function runOther(
    request: IncomingMessage,
    context: RequestContext,
    headers: string[],
    path: (PathMatch & OtherPath) | undefined,
  ): Promise<ServiceResponse> {
    const { method, url = '' } = request;
    const route = path?.methods[asGet(method)];
    if (route) applyRoute(route, context, headers);
    if (path?.kind === 'tool') checkSameOrigin(request, publicUrl);
    if (path?.access === 'token') checkDeveloper(request);
    if (route === undefined) throw noRoute(path, url);
    checkExpectation(request);
    parseQuery(url);
    return withStorageErrors(request, () => route.run(request));
  }

  /** Converts what a step has thrown. If no credential was valid, counts that for the address of the client (D13). */
  async function toErrorResponse(
    error: unknown,
    { headers: { authorization } }: IncomingMessage,
    context: RequestContext,
  ): Promise<ServiceError> {
    if (error instanceof CredentialError) return countGuess(error, context.client);
    // While the counts cannot be read, report the last window of the caller that is known.
    if (error instanceof StoreUnavailableError)
      context.window ??= limiter.lastWindow(hashOfCredential(authorization) ?? '');
    const known = error instanceof ServiceError ? error : storageError(error, false);
    if (known) return known;
    onError(error);
    return INTERNAL_ERROR;
  }

  /** Waits for an injected latency. Meanwhile, the connection has no idle timeout. */
  async function delay(socket: Socket, milliseconds: number): Promise<void> {
    const { timeout = 0 } = socket;
    socket.setTimeout(0);
    await options.sleep?.(milliseconds);
    socket.setTimeout(timeout);
  }

  return guarded(onError, handle);
}

type OperationPath = Extract<PathMatch, { access: 'key' }>;

/** Names the route in metrics, and adds the headers that all of its responses have. */
function applyRoute(
  { label, headers }: { label: string; headers: RawHeaders },
  context: RequestContext,
  all: string[],
): void {
  context.operation = label;
  all.push(...headers);
}

/** Runs a handler. @throws ServiceError that says whether the request may have changed the store */
async function withStorageErrors<Result>(
  { method }: IncomingMessage,
  run: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw storageError(error, asGet(method) !== 'GET') ?? error;
  }
}

/** Returns the first and the last step of every request: one identifies it; the other sends, counts and records a response. */
function createResponder({
  clock,
  anonymousLimiter,
  isTrustedProxy,
  onAccess,
  onWarning,
  countResponse,
  tools,
}: CommonOptions & Pick<AppOptions, 'countResponse' | 'tools'>) {
  const requestId = createRequestIds();
  const clientAddress = createClientAddress(isTrustedProxy, (peer, sent) =>
    onWarning?.(`cannot read X-Forwarded-For of the proxy ${peer}, so its clients share one limit: ${sent}`),
  );
  return {
    arrive: (request: IncomingMessage): RequestContext =>
      createContext(
        requestId(request),
        clientAddress(request),
        // Bytes that are not a request have no method.
        request.method ? request : undefined,
        clock.elapsed(),
      ),

    /** With `isLogged` false, only errors are logged: the page asks for successful responses all the time. */
    respond(
      context: RequestContext,
      request: IncomingMessage,
      response: ServerResponse,
      result: ServiceResponse,
      headers: RawHeaders,
      isLogged = true,
    ): void {
      const { status } = result;
      const { socket } = request;
      context.window ??= anonymousWindow(anonymousLimiter, context.client);
      const sent = completeResponse(result, context.window, [header.requestId, context.id, ...headers]);
      // If the client has closed its side of the connection, Node has closed the other side.
      const isReceived = socket.writable;
      response.writeHead(status, sent.headers as string[]);
      response.end(sent.body, sent.encoding);
      // Browsers open connections in advance. If nothing arrives on one, there is no request to report.
      if (context.request === undefined && socket.bytesRead === 0) return;
      const { code, message } = result instanceof ServiceError ? result : {};
      const times = { time: clock.now(), milliseconds: clock.elapsed() - context.started };
      const end: RequestEnd = { ...times, status, code, message, sent };
      tools?.recorder?.end(context, isReceived ? end : { ...times, status: 0 });
      if (isLogged || status >= 400) onAccess?.(context, end);
      // Leave out the code of a mocked response, because a mocked 429 does not mean that a limit is used up.
      countResponse?.(context.operation, status, context.asked ? undefined : code);
    },
  };
}

/** A bug must not end the process: reports the error, and closes the connection. */
const guarded =
  (onError: (error: unknown) => void, app: App): App =>
  (request, response, error) =>
    app(request, response, error).catch((bug) => {
      onError(bug);
      response.destroy();
    });
