import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { SteadyClock } from '../contract/clock.ts';
import type { ErrorCode } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import type { MemoryLimiter } from '../store/limits/limiter.ts';
import {
  type AuthenticationOptions,
  anonymousWindow,
  createAuthentication,
  type Principal,
} from './authentication.ts';
import {
  methodNotAllowed,
  notFound,
  ServiceError,
  serviceStarting,
  storageError,
  unauthorized,
} from './errors.ts';
import { type Faults, mockResponse, parsePrefer } from './faults.ts';
import { checkExpectation, checkHttp, checkSameOrigin, createHostCheck } from './request/checks.ts';
import {
  clientAddress,
  createContext,
  createRequestIds,
  type IsTrustedProxy,
  peerAddress,
  type RequestContext,
  type RequestedMock,
} from './request/context.ts';
import { hasBody, isUnderApi, pathOf, readInput, splitTarget, validateTarget } from './request/input.ts';
import {
  completeResponse,
  corsHeaders,
  optionsResponse,
  preflightHeaders,
  type SentResponse,
  type ServiceResponse,
  send,
  sendToHalfClosed,
} from './response.ts';
import {
  allMethodsHeader,
  createPathFinder,
  createPaths,
  type OperationRoute,
  type PathMatch,
  type RoutesOptions,
} from './routes.ts';
import type { Recorder, RequestEnd } from './tools/recorder.ts';

/** The options that do not need an open store. */
type StartingOptions = {
  clock: SteadyClock;
  anonymousLimiter: MemoryLimiter;
  /** The origins whose pages may read responses; `*` allows every origin. */
  cors?: readonly string[] | undefined;
  /** Undefined if no reverse proxy is trusted. */
  isTrustedProxy?: IsTrustedProxy | undefined;
  /** Waits for an injected latency, in milliseconds; returns early when the service stops. */
  sleep?: ((milliseconds: number) => Promise<void>) | undefined;
  /** By default, no faults are injected. */
  faults?: Faults | undefined;
  /** Counts a response. `operation` is undefined if the request was refused before its route was found. */
  countResponse?:
    | ((operation: string | undefined, status: number, code: ErrorCode | undefined) => void)
    | undefined;
  /** Called for each response that belongs in the access log. The request contains secrets: see `createRequestRedactors`. */
  onAccess?: ((request: RequestContext, end: RequestEnd) => void) | undefined;
  /** Receives internal errors. */
  onError(error: unknown): void;
};

export type AppOptions = StartingOptions &
  AuthenticationOptions &
  RoutesOptions & {
    /** The names that a Host header may have, besides loopback names; undefined allows every name. */
    hosts?: ReadonlySet<string> | undefined;
    /** The developer tools. If undefined, there are none, and `Prefer` has no effect. */
    tools?: { recorder?: Recorder } | undefined;
  };

export type App = ReturnType<typeof createApp>;

/** The operation of a request. `allow` lists the methods of its path. */
type FoundOperation = { route: OperationRoute } & Pick<PathMatch, 'allow' | 'params'>;

/** Carries out a request. `path` is the path of its target, or an error. @throws ServiceError, StoreError */
type Run = (
  request: IncomingMessage,
  context: RequestContext,
  path: PathMatch | ServiceError,
) => Promise<ServiceResponse>;

const INTERNAL_ERROR = new ServiceError('internal_error', 'Internal error');

/**
 * The whole service as a request handler; it does not listen. Identifies each request, carries it out, sends the
 * response, and reports it. Without a store, requests get 503 `starting` (docs/service.md 7).
 */
export function createApp(options: StartingOptions | AppOptions) {
  const { clock, cors = [], onAccess, faults, anonymousLimiter } = options;
  const open = 'store' in options ? options : undefined;
  const run: Run = open ? createRun(open) : () => Promise.reject(serviceStarting());
  const find = createPathFinder(open ? createPaths(open) : []);
  // Requests for tools, their page and health checks are not recorded (`OtherPath.kind`).
  const recorder = open?.tools?.recorder;
  const requestId = createRequestIds();

  /** Responds to a request, with `refusal` if there is one; never rejects. */
  async function handle(
    request: IncomingMessage,
    response: ServerResponse,
    refusal?: ServiceError,
  ): Promise<void> {
    const { socket, method = '', url = '' } = request;
    const context = begin(socket, request);
    try {
      context.client = clientAddress(request, options.isTrustedProxy);
      const { target, targetHost } = splitTarget(method, url);
      request.url = target;
      context.host = targetHost;
      context.isApi = isUnderApi(target);
      const path = find(target);
      const kind = path instanceof ServiceError ? 'public' : path.kind;
      context.isTool = kind === 'tool' || kind === 'page';
      // The tools get no CORS headers, because pages of other origins must not read how the service is used.
      if (cors.length > 0 && !context.isTool)
        context.headers.push(...corsHeaders(request.headers.origin, cors));
      // Requests outside the API, such as health checks, and OPTIONS requests never get an injected fault.
      const fault = context.isApi && method !== 'OPTIONS' ? faults?.nextRandom() : undefined;
      context.latency = fault?.latency ?? 0;
      context.randomFault = fault?.mock;
      if (kind === 'public') recorder?.begin(context);
      const result =
        refusal ?? (await run(request, context, path).catch((error) => toErrorResponse(error, context)));
      if (context.latency > 0) await delay(socket, context.latency);
      const sent = complete(result, context);
      let isReceived = !socket.destroyed;
      if (socket.readableEnded) isReceived = await sendToHalfClosed(socket, response, result.status, sent);
      else send(response, result.status, sent);
      report(context, result, sent, isReceived);
    } catch (error) {
      options.onError(error);
      response.destroy();
      const { status, code, message } = INTERNAL_ERROR;
      const milliseconds = clock.elapsed() - context.started;
      recorder?.end(context, { time: clock.now(), milliseconds, status, code, message });
    }
  }

  /** Creates the context of a request. `request` is undefined if Node did not pass the bytes on as a request. */
  const begin = (socket: Socket, request?: IncomingMessage): RequestContext =>
    createContext(requestId(request), peerAddress(socket), request, clock.elapsed());

  function toErrorResponse(error: unknown, context: RequestContext): ServiceResponse {
    const known = error instanceof ServiceError ? error : storageError(error, context.canChange);
    if (known) return known;
    options.onError(error);
    return INTERNAL_ERROR;
  }

  /** Waits for an injected latency. Meanwhile, the connection has no idle timeout. */
  async function delay(socket: Socket, milliseconds: number): Promise<void> {
    const { timeout = 0 } = socket;
    socket.setTimeout(0);
    await options.sleep?.(milliseconds);
    socket.setTimeout(timeout);
  }

  function complete(response: ServiceResponse, context: RequestContext): SentResponse {
    const window = context.window ?? anonymousWindow(anonymousLimiter, context.client);
    if (context.isCaller) context.headers.push(header.idempotencySupported, 'true');
    return completeResponse(response, window, context.headers);
  }

  /**
   * Counts a response, logs it if there is a log, and records it if the request is recorded. Successful requests for the
   * developer page and its tools are not logged, because the page polls. `isReceived` is false if the client disconnected
   * before the response.
   */
  function report(
    context: RequestContext,
    result: ServiceResponse,
    sent: SentResponse,
    isReceived: boolean,
  ): void {
    const { status } = result;
    const { code, message } = result instanceof ServiceError ? result : {};
    // Leave out the code of a mocked response, because a mocked 429 does not mean that a limit is used up.
    options.countResponse?.(context.operation, status, context.asked ? undefined : code);
    const milliseconds = clock.elapsed() - context.started;
    const time = clock.now();
    const end: RequestEnd = { time, milliseconds, status, code, message, sent };
    if (!context.isTool || status >= 400) onAccess?.(context, end);
    recorder?.end(context, isReceived ? end : { time, milliseconds, status: 0 });
  }

  return {
    handle,
    /** Creates and reports the response to bytes that Node did not pass on as a request. The caller sends it. */
    errorResponse(error: ServiceError, socket: Socket): SentResponse {
      const context = begin(socket);
      const sent = complete(error, context);
      // Browsers open connections in advance. If nothing arrives on one, there is no request to report.
      if (socket.bytesRead === 0) return sent;
      recorder?.begin(context);
      report(context, error, sent, true);
      return sent;
    },
  };
}

/** Returns the function that carries out requests (docs/service.md 4, 5, 8, 10 and 12; docs/testing.md). */
function createRun(options: AppOptions): Run {
  const { authenticate, count, showWindow, checkDeveloper, countAnonymous } = createAuthentication(options);
  const { keys, cors = [], faults, tools } = options;
  const checkHost = createHostCheck(options.hosts);

  const run: Run = async (request, context, path) => {
    checkHttp(request, context.url);
    context.host = checkHost(request, context.host);
    if (request.method === 'OPTIONS') return listMethods(request, context, path);
    return context.isApi ? runOperation(request, context, path) : runOther(request, context, path);
  };

  const runOperation: Run = async (request, context, path) => {
    const found = findOperation(path, request);
    if (!(found instanceof ServiceError)) applyRoute(found.route, context);
    const authenticated = authenticate(request, context);
    const principal = authenticated instanceof Promise ? await authenticated : authenticated;

    const asked = askedResponse(request, context, found);
    if (asked) return mock(asked, request, context, principal, found);

    const counted = count(principal, context);
    const rateLimit = counted instanceof Promise ? await counted : counted;
    // Throw a routing error only now: the request counts, and callers without an API key learn nothing about the routes.
    if (found instanceof ServiceError) throw found;
    checkExpectation(request);
    const reading = readInput(found.route.label, found.params, request);
    const input = reading instanceof Promise ? await reading : reading;
    // The body can arrive long after the headers, and the key can have been revoked meanwhile.
    if (hasBody(request) && !(await keys.find(principal.id))) throw unauthorized('The API key is unknown');
    context.canChange = canChange(request);
    return found.route.run(input, { request, principal, rateLimit });
  };

  /** Returns what `Prefer`, a rule or a random fault asks for; undefined if none does. Sets the latency of a rule. */
  function askedResponse(
    { method = '', headers: { prefer } }: IncomingMessage,
    context: RequestContext,
    found: FoundOperation | ServiceError,
  ): RequestedMock | undefined {
    const preferred = prefer === undefined || !tools ? undefined : parsePrefer(String(prefer));
    if (preferred || found instanceof ServiceError) return preferred;
    const rule = faults?.applyRule({ method, operation: found.route.label, params: found.params });
    context.rule = rule?.number;
    if (rule?.latency !== undefined) context.latency = rule.latency;
    return rule?.mock ?? context.randomFault;
  }

  /**
   * Makes a response that was asked for. The operation does not run, and the request is not counted. But if the limit
   * is used up, a client that asks with `Prefer` gets the real 429, so that it cannot make a ban invisible.
   */
  async function mock(
    asked: RequestedMock,
    { url = '' }: IncomingMessage,
    context: RequestContext,
    principal: Principal,
    found: FoundOperation | ServiceError,
  ): Promise<ServiceResponse> {
    const { status, retryAfter, applied } = asked;
    const { window, windows, now, retryAt } = await showWindow(principal, context);
    // `count` throws the 429, unless the limit or the ban has ended since; then the request counts, and is mocked.
    if (applied !== undefined && retryAt !== undefined) await count(principal, context);
    if (found instanceof ServiceError) throw found;
    const shown = retryAfter ? { ...window, resetAt: now + retryAfter * 1_000 } : window;
    const { route, allow } = found;
    const rateLimit = { window: shown, windows, now };
    const response = mockResponse(asked, route.label, { path: pathOf(url), allow, rateLimit });
    context.asked = asked;
    if (status === 429) context.window = { ...shown, remaining: 0 };
    // A 401 reports the window of anonymous callers.
    if (status === 401) Object.assign(context, { window: undefined, isCaller: false });
    if (applied !== undefined) context.headers.push(header.preferenceApplied, applied);
    return response;
  }

  /** Reports the methods of a path (D15). The request needs no API key, and is counted only if it has an invalid one. */
  const listMethods: Run = async (request, context, path) => {
    const { url = '', headers } = request;
    context.operation = 'options';
    // Like any other request under the API prefix, one with an invalid API key gets 401 and counts as anonymous.
    if (context.isApi && headers.authorization)
      await showWindow(await authenticate(request, context), context);
    // Both targets mean the whole server: `*` by RFC 9110, 9.3.7, and `/` because HAProxy checks it by default.
    if (url === '*' || url === '/') return optionsResponse(allMethodsHeader);
    validateTarget(url);
    if (path instanceof ServiceError) throw path;
    if (path.access === 'key' && !context.isApi) throw notFound();
    return optionsResponse(path.allow, context.isTool ? [] : preflightHeaders(cors, path.allow));
  };

  /** Carries out a request outside the API (docs/service.md 12; docs/testing.md). */
  const runOther: Run = async (request, context, path) => {
    const { method = '', url = '' } = request;
    validateTarget(url);
    if (path instanceof ServiceError) throw path;
    // The target is a path of the API whose prefix is percent-encoded, which is not allowed.
    if (path.access === 'key') throw notFound();
    const route = path.methods[asGet(method)];
    if (route) applyRoute(route, context);
    if (path.kind === 'tool') checkSameOrigin(request);
    if (path.access === 'token') await checkDeveloper(request, context);
    if (route === undefined) throw methodNotAllowed(pathOf(url), path.allow);
    checkExpectation(request);
    try {
      context.canChange = canChange(request);
      return await route.run(request, context);
    } catch (error) {
      // A wrong code for `POST /session` counts like a wrong key.
      if (error instanceof ServiceError && error.code === 'unauthorized') await countAnonymous(context);
      throw error;
    }
  };

  return run;
}

/** Whether a request can change the store, by its method. */
const canChange = ({ method }: IncomingMessage): boolean => method !== 'GET' && method !== 'HEAD';

/** Names the route in metrics, and adds the headers that all of its responses have. */
function applyRoute({ label, headers }: PathMatch['methods'][string], context: RequestContext): void {
  context.operation = label;
  context.headers.push(...headers);
}

/** HEAD is handled like GET (D15). */
const asGet = (method: string): string => (method === 'HEAD' ? 'GET' : method);

/** The operation of a request, or the error 400, 404 or 405. */
function findOperation(
  path: PathMatch | ServiceError,
  { method = '', url = '' }: IncomingMessage,
): FoundOperation | ServiceError {
  if (path instanceof ServiceError) return path;
  if (path.access !== 'key') return notFound();
  const { methods, allow, params } = path;
  const route = methods[asGet(method)];
  return route === undefined ? methodNotAllowed(pathOf(url), allow) : { route, allow, params };
}
