import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { OperationName } from '../contract/api.ts';
import { header } from '../contract/headers.ts';
import type { Limiter, MemoryLimiter, RateLimitDecision } from '../store/limiter.ts';
import type { SteadyClock } from '../system/clock.ts';
import {
  type AuthenticationOptions,
  anonymousWindow,
  type Caller,
  createAuthentication,
} from './authentication.ts';
import {
  animalMayBeAdded,
  CredentialError,
  notFound,
  ServiceError,
  serviceStarting,
  storageError,
  tooManyRequests,
} from './errors.ts';
import type { Faults } from './faults.ts';
import { mockResponse, parsePrefer, type RequestedMock } from './mocks.ts';
import {
  checkExpectation,
  checkHost,
  checkTransferCoding,
  createAddressReader,
  foreignOrigin,
  type IsTrustedProxy,
  isOfOtherOrigin,
} from './request/checks.ts';
import { isUnderApi, parseQuery, readJsonBody, splitTarget } from './request/input.ts';
import { completeResponse, corsHeaders, preflightResponse, type ServiceResponse } from './response.ts';
import {
  allMethodsHeader,
  asGet,
  createPathFinder,
  createPaths,
  type KnownPath,
  noRouteError,
  type OperationPath,
  type RootPath,
  type RoutesOptions,
} from './routes.ts';
import { createRecord, type RequestRecord, recordBody } from './tools/recorder.ts';

/** The options that do not need an open store. */
type CommonOptions = {
  clock: SteadyClock;
  anonymousLimiter: MemoryLimiter;
  /** The origins whose pages may read responses; `*` allows every origin. */
  cors?: readonly string[] | undefined;
  isTrustedProxy?: IsTrustedProxy | undefined;
  onAccess?: ((record: RequestRecord) => void) | undefined;
  onWarning?: ((message: string) => void) | undefined;
  onError(error: unknown): void;
};

export type AppOptions = CommonOptions &
  AuthenticationOptions &
  RoutesOptions & {
    limiter: Limiter;
    /** The names that a Host header may have, besides those that `checkHost` always allows; undefined allows every name. */
    hosts?: ReadonlySet<string> | undefined;
    faults?: Faults | undefined;
    /** Waits for an injected latency, in milliseconds; returns early when the service stops. */
    sleep?: ((milliseconds: number) => Promise<void>) | undefined;
    /** Counts a response. `operation` is undefined if no route was found, for example for an unknown path. */
    countResponse?: ((operation: string | undefined, status: number) => void) | undefined;
  };

/** Responds to a request, or with the error `invalid` to bytes that are not a request. Never rejects. */
export type App = (
  request: IncomingMessage,
  response: ServerResponse,
  invalid?: ServiceError,
) => Promise<void>;

/** Returns the app to use until the store is open: all requests but allowed preflights get an error, mostly 503 `starting`. */
export function createStartingApp(options: CommonOptions): App {
  return createAppFrom(options, async ({ request, headers }, invalid = serviceStarting()) => {
    const { cors = [] } = options;
    headers.push(...corsHeaders(request, cors));
    return preflightResponse(request, cors) ?? invalid;
  });
}

/** A request that is being handled. `headers` are for its response, and `path` is its entry in the table of paths, if any. */
type Exchange = {
  request: IncomingMessage;
  record: RequestRecord;
  headers: string[];
  path: KnownPath | undefined;
  /** What an error says if a running handler may have changed something: for example, `the animal may have been added`. */
  possibleChange: string | undefined;
};

/**
 * The whole service as a request handler; it does not listen. A request passes these steps in order: target and host, key,
 * count, input, run, respond, record. If a step before `respond` throws an error, `toErrorResponse` converts the error.
 */
export function createApp(options: AppOptions): App {
  const { cors = [], faults, hosts, keys, limiter, onError, publicUrl, sleep, tools } = options;
  const { identify, credentialError, checkDeveloper, countGuess } = createAuthentication(options);
  const findPath = createPathFinder(createPaths(options));

  async function runSteps(exchange: Exchange, invalid: ServiceError | undefined): Promise<ServiceResponse> {
    const { request, record } = exchange;
    const { method = '', url = '', socket } = request;
    const { target, targetHost } = splitTarget(method, url);
    request.url = target;
    const isApi = isUnderApi(target);
    const path = findPath(target);
    exchange.path = path;
    const isTool = path?.kind === 'tool' || path?.kind === 'page';
    // The tools get no CORS headers, because pages of other origins must not read how the service is used.
    if (!isTool) exchange.headers = corsHeaders(request, cors);
    // Requests outside the API, such as health checks, and OPTIONS requests never get an injected fault.
    const fault = isApi && method !== 'OPTIONS' ? faults?.nextRandom() : undefined;
    record.latency = fault?.latency ?? 0;
    if (tools?.recorder && isRecorded(exchange)) recordBody(record, request);
    let result: ServiceResponse;
    try {
      if (invalid) throw invalid;
      const preflight = isTool ? undefined : preflightResponse(request, cors);
      if (preflight) return preflight;
      checkTransferCoding(request);
      // Health checks may send any Host, such as the name of a load balancer. Their responses need no protection.
      checkHost(request, targetHost, path?.kind === 'health' ? undefined : hosts);
      if (method === 'OPTIONS') result = listMethods(exchange, path);
      else if (path && path.access !== 'key') result = await runRootPath(exchange, path);
      else if (isApi) result = await runOperation(exchange, path, fault?.mock);
      else throw notFound();
    } catch (error) {
      result = await toErrorResponse(error, exchange);
    }
    if (record.latency > 0) {
      // The latency may be longer than the idle timeout of the connection.
      const { timeout = 0 } = socket;
      socket.setTimeout(0);
      await sleep?.(record.latency);
      socket.setTimeout(timeout);
    }
    return result;
  }

  /** Carries out an operation (docs/service.md 4, 5 and 8). Without a route, counts the request, and throws 404 or 405. */
  async function runOperation(
    exchange: Exchange,
    path?: OperationPath & KnownPath,
    randomMock?: RequestedMock,
  ): Promise<ServiceResponse> {
    const { request, record, headers } = exchange;
    const { url: target = '' } = request;
    const route = path?.methods[asGet(request.method)];
    if (route) {
      record.operation = route.name;
      headers.push(...route.headers);
    }
    const id = identify(request);
    const key = id === undefined ? undefined : await keys.find(id);
    if (id === undefined || key === undefined) throw credentialError(request, 'API key');
    const caller = { id, quota: key.quota };
    record.keyName = key.name;
    const mock = path && route && (takeMock(exchange, route.name) ?? randomMock);
    // A mocked 401 looks like the response to a request without a valid key.
    if (mock?.status !== 401) headers.push(header.idempotencySupported, 'true');
    if (mock) return respondWithMock(exchange, mock, caller, route.name, path);
    const rateLimit = recordDecision(record, await limiter.take(id, key.quota));
    // Throw this error only now: the request counts, and callers without an API key learn nothing about the routes.
    if (path === undefined || route === undefined) throw noRouteError(path);
    checkExpectation(request);
    const query = parseQuery(target);
    const body = route.readsBody ? await readJsonBody(request) : undefined;
    // The body can arrive long after the headers, and the key may have been revoked since then.
    if (route.readsBody && !(await keys.find(id))) throw credentialError(request, 'API key');
    if (asGet(request.method) !== 'GET') exchange.possibleChange = animalMayBeAdded;
    return route.run({ request, caller, rateLimit, query, body });
  }

  /** Takes the response that `Prefer` or a fault rule asks for. A latency of the rule replaces the random one. */
  function takeMock({ request, record }: Exchange, operation: OperationName): RequestedMock | undefined {
    const { prefer } = request.headers;
    const preferred = tools && prefer !== undefined ? parsePrefer(String(prefer)) : undefined;
    if (preferred) return preferred;
    const rule = faults?.applyRule(operation);
    record.rule = rule?.number;
    if (rule?.latency !== undefined) record.latency = rule.latency;
    return rule?.mock;
  }

  /** Returns the response of a mock. The operation does not run, and the request is not counted. */
  async function respondWithMock(
    { record, headers }: Exchange,
    mock: RequestedMock,
    { id, quota }: Caller,
    operation: OperationName,
    path: OperationPath & KnownPath,
  ): Promise<ServiceResponse> {
    const { status, retryAfter, applied } = mock;
    const decision = await limiter.peek(id, quota);
    const { window, now } = decision;
    const resetAt = retryAfter ? now + retryAfter * 1_000 : window.resetAt;
    const shown = status === 429 ? { ...window, resetAt, remaining: 0 } : window;
    record.window = window;
    const response = mockResponse(mock, operation, path, { ...decision, window: shown });
    record.window = shown;
    record.mock = mock;
    if (applied !== undefined) headers.push(header.preferenceApplied, applied);
    return response;
  }

  /** Carries out a request outside the API (docs/service.md 12; docs/testing.md). */
  async function runRootPath(exchange: Exchange, path: RootPath & KnownPath): Promise<ServiceResponse> {
    const { request, record, headers } = exchange;
    const run = path.methods[asGet(request.method)];
    if (run) record.operation = path.label;
    headers.push(...path.headers);
    if (path.kind === 'tool' && isOfOtherOrigin(request, publicUrl))
      throw new ServiceError(
        'forbidden',
        'Pages of other origins cannot use this path; behind a reverse proxy, start pets serve with --public-url and --page',
      );
    if (path.access === 'token') checkDeveloper(request);
    if (run === undefined) throw noRouteError(path);
    checkExpectation(request);
    if (asGet(request.method) !== 'GET') exchange.possibleChange = 'the change may have been made';
    return run(request);
  }

  /** Converts what a step has thrown. If no credential was valid, counts that for the address of the client (D13). */
  async function toErrorResponse(
    error: unknown,
    { record, possibleChange }: Exchange,
  ): Promise<ServiceError> {
    if (error instanceof CredentialError) return countGuess(error, record.client);
    const response = error instanceof ServiceError ? error : storageError(error, possibleChange);
    if (response) return response;
    onError(error);
    return new ServiceError('internal_error', 'Internal error; the log of the service says more');
  }

  return createAppFrom(options, runSteps);
}

/** Whether the developer tools show a request. They leave out health checks, and requests for the tools and their page. */
const isRecorded = ({ path }: Exchange): boolean => path === undefined || path.kind === 'public';

/** Records the decision about a request. @throws ServiceError 429 if it is refused */
function recordDecision(record: RequestRecord, decision: RateLimitDecision): RateLimitDecision {
  record.window = decision.window;
  record.isDay = decision.window === decision.windows.day;
  record.isCounted = decision.retryAt === undefined;
  if (decision.retryAt !== undefined) throw tooManyRequests(decision);
  return decision;
}

/** Reports the methods of a path, to anyone (D15). @throws ServiceError 404 */
function listMethods({ request: { url }, record }: Exchange, path: KnownPath | undefined): ServiceResponse {
  record.operation = 'options';
  // Both targets mean the whole server: `*` by RFC 9110, 9.3.7, and `/` because HAProxy checks it by default.
  const allow = url === '*' || url === '/' ? allMethodsHeader : path?.allow;
  if (allow === undefined) throw notFound();
  return { status: 204, headers: [header.allow, allow], body: '' };
}

/** The accepted form of a request id. Other text could be mistaken for further fields of a log line. */
const ID_PATTERN = /^[A-Za-z0-9._-]{1,64}$/;
const REQUEST_ID = header.requestId.toLowerCase();

/** Returns an app that identifies each request, and sends, counts and records the response that `runSteps` returns. */
function createAppFrom(
  options: CommonOptions & Pick<AppOptions, 'countResponse' | 'publicUrl' | 'tools'>,
  runSteps: (exchange: Exchange, invalid: ServiceError | undefined) => Promise<ServiceResponse>,
): App {
  const { clock, anonymousLimiter, isTrustedProxy } = options;
  const { countResponse, onAccess, onError, onWarning, tools } = options;
  // A random prefix with a number is unique enough, and faster than a random UUID for each request.
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  const clientAddress = createAddressReader(isTrustedProxy, (peer, sent) =>
    onWarning?.(`X-Forwarded-For of proxy ${peer} is invalid (${sent}); clients without a key share a limit`),
  );

  return async (request, response, invalid) => {
    try {
      const exchange = createExchange(request);
      respond(exchange, response, await runSteps(exchange, invalid));
    } catch (error) {
      onError(error);
      response.destroy();
    }
  };

  function createExchange(request: IncomingMessage): Exchange {
    // The id of the client, if it has the accepted form (docs/service.md 10).
    const sentId = request.headers[REQUEST_ID];
    const id = typeof sentId === 'string' && ID_PATTERN.test(sentId) ? sentId : `${prefix}-${++count}`;
    const record = createRecord(id, clientAddress(request), request, clock.elapsed());
    return { request, record, headers: [], path: undefined, possibleChange: undefined };
  }

  function respond(exchange: Exchange, response: ServerResponse, result: ServiceResponse): void {
    const { request, record, headers, path } = exchange;
    const { socket } = request;
    record.window ??= anonymousWindow(anonymousLimiter, record.client);
    headers.push(header.requestId, record.id);
    const sent = completeResponse(result, record.window, headers);
    // If the client has closed its side of the connection, Node has closed the other side.
    const isReceived = socket.writable;
    response.writeHead(result.status, sent.headers as string[]);
    response.end(sent.body, sent.encoding);
    // Browsers open connections in advance. If nothing arrives on one, there is no request to report.
    if (record.method === '-' && socket.bytesRead === 0) return;
    const { code, message } = result instanceof ServiceError ? result : {};
    record.time = clock.now();
    record.milliseconds = clock.elapsed() - record.started;
    record.foreignOrigin = foreignOrigin(request, result.status, options);
    if (isReceived) {
      record.status = result.status;
      record.code = code;
      record.message = message;
      record.responseHeaders = sent.headers;
    }
    if (isRecorded(exchange)) tools?.recorder?.add(record, isReceived ? sent : undefined);
    // The page uses the tools all the time, so the log shows requests for the tools and the page only if they fail.
    const isTool = path?.kind === 'tool' || path?.kind === 'page';
    if (!isTool || result.status >= 400) onAccess?.(record);
    countResponse?.(record.operation, result.status);
  }
}
