import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ErrorCode } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import type { OperationName } from '../contract/operations.ts';
import { StoreUnavailableError } from '../store/errors.ts';
import type { Limiter, MemoryLimiter, RateLimitDecision } from '../store/limits/limiter.ts';
import type { SteadyClock } from '../system/clock.ts';
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
import { checkExpectation, checkHost, checkSameOrigin, checkTransferCoding } from './request/checks.ts';
import { createClientAddress, type IsTrustedProxy } from './request/client-address.ts';
import {
  createContext,
  createRequestIds,
  type RequestContext,
  type RequestedMock,
} from './request/context.ts';
import { checkTarget, isUnderApi, parseQuery, pathOf, readJsonBody, splitTarget } from './request/input.ts';
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
  type KnownPath,
  noRoute,
  type Params,
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
export type App = (
  request: IncomingMessage,
  response: ServerResponse,
  invalid?: ServiceError,
) => Promise<void>;

const INTERNAL_ERROR = new ServiceError('internal_error', 'Internal error');

/** Responds 503 `starting` to every request, until the store is open (docs/service.md 7). */
export function createStartingApp(options: CommonOptions): App {
  const { cors = [], onError } = options;
  const { arrive, respond } = createResponder(options);
  return guarded(onError, async (request, response, invalid = serviceStarting()) => {
    const result = preflightResponse(request, cors) ?? invalid;
    respond({ request, context: arrive(request), headers: corsHeaders(request, cors) }, response, result);
  });
}

/** A request that is being handled. `headers` are those of its response, besides those that the handler adds. */
type Exchange = {
  request: IncomingMessage;
  target: string;
  params: Params;
  context: RequestContext;
  headers: string[];
};

type OperationPath = Extract<KnownPath, { access: 'key' }>;

/**
 * The whole service as a request handler; it does not listen. A request passes these steps in order: target and host, key,
 * count, input, run, respond, record. Each step returns a value, or throws a ServiceError, which becomes the response.
 */
export function createApp(options: AppOptions): App {
  const { cors = [], faults, hosts, limiter, onError, publicUrl, sleep, tools } = options;
  const { arrive, respond } = createResponder(options);
  const { authenticate, checkNotRevoked, checkDeveloper, countGuess } = createAuthentication(options);
  const find = createPathFinder(createPaths(options));

  const handle: App = async (request, response, invalid) => {
    const context = arrive(request);
    const { method = '', url = '', socket } = request;
    const { target, targetHost } = splitTarget(method, url);
    request.url = target;
    const isApi = isUnderApi(target);
    const { path: found, params } = find(target);
    // The prefix of the API must not be percent-encoded.
    const path = found?.access === 'key' && !isApi ? undefined : found;
    const isTool = path?.kind === 'tool' || path?.kind === 'page';
    // The tools get no CORS headers, because pages of other origins must not read how the service is used.
    const headers = isTool ? [] : corsHeaders(request, cors);
    const exchange: Exchange = { request, target, params, context, headers };
    // Requests outside the API, such as health checks, and OPTIONS requests never get an injected fault.
    const fault = isApi && method !== 'OPTIONS' ? faults?.nextRandom() : undefined;
    context.latency = fault?.latency ?? 0;
    // Requests for tools, their page and health checks are not recorded (`OtherPath.kind`).
    if (path === undefined || path.kind === 'public') tools?.recorder?.begin(context);
    const run = async (): Promise<ServiceResponse> => {
      if (invalid) throw invalid;
      const preflight = isTool ? undefined : preflightResponse(request, cors);
      if (preflight) return preflight;
      checkTransferCoding(request);
      // Health checks often use the address of the server as Host. Their responses need no protection.
      checkHost(request, targetHost, path?.kind === 'health' ? undefined : hosts);
      if (method === 'OPTIONS') return listMethods(exchange, path);
      if (path?.access === 'key') return runOperation(exchange, path, fault?.mock);
      return isApi ? runOperation(exchange) : runOther(exchange, path);
    };
    const result = await run().catch((error) => toErrorResponse(error, exchange));
    if (context.latency > 0) {
      // Meanwhile, the connection has no idle timeout.
      const { timeout = 0 } = socket;
      socket.setTimeout(0);
      await sleep?.(context.latency);
      socket.setTimeout(timeout);
    }
    respond(exchange, response, result, !isTool);
  };

  /** Carries out an operation (docs/service.md 4, 5 and 8). Without a path, counts the request and responds 404. */
  async function runOperation(
    exchange: Exchange,
    path?: OperationPath,
    randomMock?: RequestedMock,
  ): Promise<ServiceResponse> {
    const { request, target, params, context, headers } = exchange;
    const route = path && routeOf(exchange, path.methods);
    const caller = await authenticate(request);
    context.keyName = caller.name;
    const asked = path && route && (preferredMock(request) ?? ruleMock(exchange, route.label) ?? randomMock);
    // A mocked 401 looks like the response to a request without a valid key.
    if (asked?.status !== 401) headers.push(header.idempotencySupported, 'true');
    if (asked) return mock(exchange, asked, caller, route.label, path.allow);
    const rateLimit = await count(exchange, caller);
    // Throw this error only now: the request counts, and callers without an API key learn nothing about the routes.
    if (path === undefined || route === undefined) throw noRoute(path, target);
    checkExpectation(request);
    const query = parseQuery(target);
    const body = route.readsBody ? await readJsonBody(request) : undefined;
    // The body can arrive long after the headers, and the key can have been revoked meanwhile.
    if (route.readsBody) await checkNotRevoked(caller);
    const call = { request, caller, rateLimit, params, query, body };
    return withStorageErrors(request, () => route.run(call));
  }

  /** Counts a request against the limits of its caller. @throws ServiceError 429, StoreError */
  async function count({ context }: Exchange, { id, quota }: Caller): Promise<RateLimitDecision> {
    const decision = await limiter.take(id, quota);
    context.window = decision.window;
    context.isDay = decision.window === decision.windows.day;
    context.isCounted = decision.retryAt === undefined;
    if (decision.retryAt !== undefined) throw tooManyRequests(decision);
    return decision;
  }

  const preferredMock = ({ headers: { prefer } }: IncomingMessage): RequestedMock | undefined =>
    prefer === undefined || !tools ? undefined : parsePrefer(String(prefer));

  /** The response that a fault rule asks for. A latency of the rule replaces the random one. */
  function ruleMock(
    { request: { method = '' }, params, context }: Exchange,
    operation: OperationName,
  ): RequestedMock | undefined {
    const rule = faults?.applyRule({ method, operation, params });
    context.rule = rule?.number;
    if (rule?.latency !== undefined) context.latency = rule.latency;
    return rule?.mock;
  }

  /**
   * Makes a response that was asked for. The operation does not run, and the request is not counted. But if the limit
   * is used up, a client that asks with `Prefer` gets the real 429, so that it cannot make a ban invisible.
   */
  async function mock(
    exchange: Exchange,
    asked: RequestedMock,
    caller: Caller,
    operation: OperationName,
    allow: string,
  ): Promise<ServiceResponse> {
    const { target, context, headers } = exchange;
    const { status, retryAfter, applied } = asked;
    const { window, windows, now, retryAt } = await limiter.peek(caller.id, caller.quota);
    context.window = window;
    // `count` throws the 429, unless the limit or the ban has ended since; then the request counts, and is mocked.
    if (applied !== undefined && retryAt !== undefined) await count(exchange, caller);
    const shown = retryAfter ? { ...window, resetAt: now + retryAfter * 1_000 } : window;
    const rateLimit = { window: shown, windows, now };
    const response = mockResponse(asked, operation, { path: pathOf(target), allow, rateLimit });
    context.asked = asked;
    if (status === 429) context.window = { ...shown, remaining: 0 };
    if (status === 401) context.window = undefined;
    if (applied !== undefined) headers.push(header.preferenceApplied, applied);
    return response;
  }

  /** Carries out a request outside the API (docs/service.md 12; docs/testing.md). */
  async function runOther(
    exchange: Exchange,
    path: Exclude<KnownPath, OperationPath> | undefined,
  ): Promise<ServiceResponse> {
    const { request, target } = exchange;
    const route = path && routeOf(exchange, path.methods);
    if (path?.kind === 'tool') checkSameOrigin(request, publicUrl);
    if (path?.access === 'token') checkDeveloper(request);
    if (route === undefined) throw noRoute(path, target);
    checkExpectation(request);
    parseQuery(target);
    return withStorageErrors(request, () => route.run(request));
  }

  /** Converts what a step has thrown. If no credential was valid, counts that for the address of the client (D13). */
  async function toErrorResponse(error: unknown, { request, context }: Exchange): Promise<ServiceError> {
    if (error instanceof CredentialError) return countGuess(error, context.client);
    // While the counts cannot be read, report the last window of the caller that is known.
    if (error instanceof StoreUnavailableError)
      context.window ??= limiter.lastWindow(hashOfCredential(request.headers.authorization) ?? '');
    const known = error instanceof ServiceError ? error : storageError(error, false);
    if (known) return known;
    onError(error);
    return INTERNAL_ERROR;
  }

  return guarded(onError, handle);
}

/** Reports the methods of a path, to anyone (D15). @throws ServiceError 400, 404 */
function listMethods({ target, context }: Exchange, path: KnownPath | undefined): ServiceResponse {
  context.operation = 'options';
  // Both targets mean the whole server: `*` by RFC 9110, 9.3.7, and `/` because HAProxy checks it by default.
  if (target === '*' || target === '/') return optionsResponse(allMethodsHeader);
  checkTarget(target);
  if (path === undefined) throw notFound();
  return optionsResponse(path.allow);
}

/** The route of a method; undefined if there is none. Names it in metrics, and adds the headers of all its responses. */
function routeOf<Found extends { label: string; headers: RawHeaders }>(
  { request, context, headers }: Exchange,
  methods: Readonly<Record<string, Found>>,
): Found | undefined {
  const route = methods[asGet(request.method)];
  if (route === undefined) return undefined;
  context.operation = route.label;
  headers.push(...route.headers);
  return route;
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
      { request: { socket }, context, headers }: Omit<Exchange, 'target' | 'params'>,
      response: ServerResponse,
      result: ServiceResponse,
      isLogged = true,
    ): void {
      const { status } = result;
      context.window ??= anonymousWindow(anonymousLimiter, context.client);
      const sent = completeResponse(result, context.window, [header.requestId, context.id, ...headers]);
      // If the client has closed its side of the connection, Node has closed the other side.
      const isReceived = socket.writable;
      response.writeHead(status, sent.headers as string[]);
      response.end(sent.body, sent.encoding);
      // Browsers open connections in advance. If nothing arrives on one, there is no request to report.
      if (context.request === undefined && socket.bytesRead === 0) return;
      const { code, message } = result instanceof ServiceError ? result : {};
      const time = clock.now();
      const milliseconds = clock.elapsed() - context.started;
      const end: RequestEnd = { time, milliseconds, status, code, message, sent };
      tools?.recorder?.end(context, isReceived ? end : { time, milliseconds, status: 0 });
      if (isLogged || status >= 400) onAccess?.(context, end);
      // Leave out the code of a mocked response, because a mocked 429 does not mean that a limit is used up.
      countResponse?.(context.operation, status, context.asked ? undefined : code);
    },
  };
}

/** A bug must not end the process: reports the error, and closes the connection. */
const guarded =
  (onError: (error: unknown) => void, app: App): App =>
  (request, response, invalid) =>
    app(request, response, invalid).catch((error) => {
      onError(error);
      response.destroy();
    });
