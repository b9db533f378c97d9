import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ErrorCode } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import type { OperationName } from '../contract/operations.ts';
import { StoreUnavailableError } from '../store/errors.ts';
import type { Limiter, MemoryLimiter, RateLimitDecision } from '../store/limiter.ts';
import type { SteadyClock } from '../system/clock.ts';
import {
  type AuthenticationOptions,
  anonymousWindow,
  type Caller,
  createAuthentication,
} from './authentication.ts';
import {
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
  checkSameOrigin,
  checkTransferCoding,
  foreignOrigin,
} from './request/checks.ts';
import { createClientAddress, type IsTrustedProxy } from './request/client-address.ts';
import { checkTarget, isUnderApi, parseQuery, pathOf, readJsonBody, splitTarget } from './request/input.ts';
import { createRecord, type RequestRecord } from './request/record.ts';
import {
  completeResponse,
  corsHeaders,
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
import type { Recorder } from './tools/recorder.ts';

/** The options that do not need an open store. */
type CommonOptions = {
  clock: SteadyClock;
  anonymousLimiter: MemoryLimiter;
  /** The origins whose pages may read responses; `*` allows every origin. */
  cors?: readonly string[] | undefined;
  /** Undefined if no reverse proxy is trusted. */
  isTrustedProxy?: IsTrustedProxy | undefined;
  /** Called for each response that belongs in the access log. */
  onAccess?: ((record: RequestRecord) => void) | undefined;
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

/** Responds 503 `starting` to every request, until the store is open (docs/service.md 7). */
export function createStartingApp(options: CommonOptions): App {
  return createHandler(options, async ({ request, headers }, invalid = serviceStarting()) => {
    const { cors = [] } = options;
    headers.push(...corsHeaders(request, cors));
    return preflightResponse(request, cors) ?? invalid;
  });
}

/** A request that is being handled. `headers` are those of its response, besides those that the handler adds. */
type Exchange = {
  request: IncomingMessage;
  record: RequestRecord;
  headers: string[];
  /** The target without a host, and the path parameters in it. */
  target: string;
  params: Params;
  /** Whether the handler is running, and can have changed the store. */
  isChanging: boolean;
  /** Whether the log of the developer tools gets the request, and the access log even a successful response. */
  isRecorded: boolean;
  isLogged: boolean;
};

type OperationPath = Extract<KnownPath, { access: 'key' }>;

/**
 * The whole service as a request handler; it does not listen. A request passes these steps in order: target and host, key,
 * count, input, run, respond, record. Each step returns a value, or throws a ServiceError, which becomes the response.
 */
export function createApp(options: AppOptions): App {
  const { cors = [], faults, hosts, keys, limiter, onError, publicUrl, sleep, tools } = options;
  const { identify, refusal, checkDeveloper, countGuess } = createAuthentication(options);
  const find = createPathFinder(createPaths(options));

  async function answer(exchange: Exchange, invalid: ServiceError | undefined): Promise<ServiceResponse> {
    const { request, record } = exchange;
    const { method = '', url = '', socket } = request;
    const { target, targetHost } = splitTarget(method, url);
    request.url = target;
    const isApi = isUnderApi(target);
    const { path: found, params } = find(target);
    exchange.target = target;
    exchange.params = params;
    // The prefix of the API must not be percent-encoded.
    const path = found?.access === 'key' && !isApi ? undefined : found;
    const isTool = path?.kind === 'tool' || path?.kind === 'page';
    // The page asks for successful responses all the time.
    exchange.isLogged = !isTool;
    // The tools get no CORS headers, because pages of other origins must not read how the service is used.
    if (!isTool) exchange.headers = corsHeaders(request, cors);
    // Requests outside the API, such as health checks, and OPTIONS requests never get an injected fault.
    const fault = isApi && method !== 'OPTIONS' ? faults?.nextRandom() : undefined;
    record.latency = fault?.latency ?? 0;
    // Requests for tools, their page and health checks are not recorded (`OtherPath.kind`).
    exchange.isRecorded = path === undefined || path.kind === 'public';
    if (exchange.isRecorded) tools?.recorder?.begin(record, request);
    let result: ServiceResponse;
    try {
      if (invalid) throw invalid;
      const preflight = isTool ? undefined : preflightResponse(request, cors);
      if (preflight) return preflight;
      checkTransferCoding(request);
      // Health checks often use the address of the server as Host. Their responses need no protection.
      checkHost(request, targetHost, path?.kind === 'health' ? undefined : hosts);
      if (method === 'OPTIONS') result = listMethods(exchange, path);
      else if (path && path.access !== 'key') result = await runOther(exchange, path);
      else if (isApi) result = await runOperation(exchange, path, fault?.mock);
      else throw noRoute(path, target);
    } catch (error) {
      result = await toErrorResponse(error, exchange);
    }
    if (record.latency > 0) {
      // Meanwhile, the connection has no idle timeout.
      const { timeout = 0 } = socket;
      socket.setTimeout(0);
      await sleep?.(record.latency);
      socket.setTimeout(timeout);
    }
    return result;
  }

  /** Carries out an operation (docs/service.md 4, 5 and 8). Without a path, counts the request and responds 404. */
  async function runOperation(
    exchange: Exchange,
    path?: OperationPath,
    randomMock?: RequestedMock,
  ): Promise<ServiceResponse> {
    const { request, target, params, record, headers } = exchange;
    const route = path && routeOf(exchange, path.methods);
    const id = identify(request);
    const key = id === undefined ? undefined : await keys.find(id);
    if (id === undefined || key === undefined) throw refusal(request, 'API key');
    const caller = { id, quota: key.quota };
    record.keyName = key.name;
    const asked = path && route && (requestedMock(exchange, route.label) ?? randomMock);
    // A mocked 401 looks like the response to a request without a valid key.
    if (asked?.status !== 401) headers.push(header.idempotencySupported, 'true');
    if (asked) return mock(exchange, asked, caller, route.label, path.allow);
    const rateLimit = note(record, await limiter.take(id, key.quota));
    // Throw this error only now: the request counts, and callers without an API key learn nothing about the routes.
    if (path === undefined || route === undefined) throw noRoute(path, target);
    checkExpectation(request);
    const query = parseQuery(target);
    const body = route.readsBody ? await readJsonBody(request) : undefined;
    // The body can arrive long after the headers, and the key can have been revoked meanwhile.
    if (route.readsBody && !(await keys.find(id))) throw refusal(request, 'API key');
    exchange.isChanging = asGet(request.method) !== 'GET';
    return route.run({ request, caller, rateLimit, params, query, body });
  }

  /** The response that `Prefer` or a fault rule asks for. A latency of the rule replaces the random one. */
  function requestedMock(
    { request, params, record }: Exchange,
    operation: OperationName,
  ): RequestedMock | undefined {
    const { method = '', headers } = request;
    const preferred = tools && headers.prefer !== undefined ? parsePrefer(String(headers.prefer)) : undefined;
    if (preferred) return preferred;
    const rule = faults?.applyRule({ method, operation, params });
    record.rule = rule?.number;
    if (rule?.latency !== undefined) record.latency = rule.latency;
    return rule?.mock;
  }

  /**
   * Makes a response that was asked for. The operation does not run, and the request is not counted. But if the limit
   * is used up, a client that asks with `Prefer` gets the real 429, so that it cannot make a ban invisible.
   */
  async function mock(
    { target, record, headers }: Exchange,
    asked: RequestedMock,
    { id, quota }: Caller,
    operation: OperationName,
    allow: string,
  ): Promise<ServiceResponse> {
    const { status, retryAfter, applied } = asked;
    const { window, windows, now, retryAt } = await limiter.peek(id, quota);
    record.window = window;
    // `note` throws the 429, unless the limit or the ban has ended since; then the request counts, and is mocked.
    if (applied !== undefined && retryAt !== undefined) note(record, await limiter.take(id, quota));
    const shown = retryAfter ? { ...window, resetAt: now + retryAfter * 1_000 } : window;
    const rateLimit = { window: shown, windows, now };
    const response = mockResponse(asked, operation, { path: pathOf(target), allow, rateLimit });
    record.asked = asked;
    if (status === 429) record.window = { ...shown, remaining: 0 };
    if (status === 401) record.window = undefined;
    if (applied !== undefined) headers.push(header.preferenceApplied, applied);
    return response;
  }

  /** Carries out a request outside the API (docs/service.md 12; docs/testing.md). */
  async function runOther(
    exchange: Exchange,
    path: Exclude<KnownPath, OperationPath>,
  ): Promise<ServiceResponse> {
    const { request, target } = exchange;
    const route = routeOf(exchange, path.methods);
    if (path.kind === 'tool') checkSameOrigin(request, publicUrl);
    if (path.access === 'token') checkDeveloper(request);
    if (route === undefined) throw noRoute(path, target);
    checkExpectation(request);
    parseQuery(target);
    exchange.isChanging = asGet(request.method) !== 'GET';
    return route.run(request);
  }

  /** Converts what a step has thrown. If no credential was valid, counts that for the address of the client (D13). */
  async function toErrorResponse(
    error: unknown,
    { request, record, isChanging }: Exchange,
  ): Promise<ServiceError> {
    if (error instanceof CredentialError) return countGuess(error, record.client);
    // While the counts cannot be read, report the last window of the caller that is known.
    if (error instanceof StoreUnavailableError) record.window ??= limiter.lastWindow(identify(request) ?? '');
    const known = error instanceof ServiceError ? error : storageError(error, isChanging);
    if (known) return known;
    onError(error);
    return new ServiceError('internal_error', 'Internal error');
  }

  return createHandler(options, answer);
}

/** Notes the decision about a request. @throws ServiceError 429 if it is refused */
function note(record: RequestRecord, decision: RateLimitDecision): RateLimitDecision {
  record.window = decision.window;
  record.isDay = decision.window === decision.windows.day;
  record.isCounted = decision.retryAt === undefined;
  if (decision.retryAt !== undefined) throw tooManyRequests(decision);
  return decision;
}

/** Reports the methods of a path, to anyone (D15). @throws ServiceError 400, 404 */
function listMethods({ target, record }: Exchange, path: KnownPath | undefined): ServiceResponse {
  record.operation = 'options';
  // Both targets mean the whole server: `*` by RFC 9110, 9.3.7, and `/` because HAProxy checks it by default.
  const isWhole = target === '*' || target === '/';
  if (!isWhole) checkTarget(target);
  const allow = isWhole ? allMethodsHeader : path?.allow;
  if (allow === undefined) throw notFound();
  return { status: 204, headers: [header.allow, allow], body: '' };
}

/** The route of a method; undefined if there is none. Names it in metrics, and adds the headers of all its responses. */
function routeOf<Found extends { label: string; headers: RawHeaders }>(
  { request, record, headers }: Exchange,
  methods: Readonly<Record<string, Found>>,
): Found | undefined {
  const route = methods[asGet(request.method)];
  if (route === undefined) return undefined;
  record.operation = route.label;
  headers.push(...route.headers);
  return route;
}

/** The accepted form of a request id. Other text could be mistaken for further fields of a log line. */
const ID_PATTERN = /^[A-Za-z0-9._-]{1,64}$/;
const REQUEST_ID = header.requestId.toLowerCase();

/** Makes a handler of `answer`: identifies each request, and sends, counts and records its response. */
function createHandler(
  options: CommonOptions & Pick<AppOptions, 'countResponse' | 'tools'>,
  answer: (exchange: Exchange, invalid: ServiceError | undefined) => Promise<ServiceResponse>,
): App {
  const { clock, anonymousLimiter, cors = [], isTrustedProxy } = options;
  const { countResponse, onAccess, onError, onWarning, tools } = options;
  // A random prefix with a number is unique enough, and faster than a random UUID for each request.
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  const clientAddress = createClientAddress(isTrustedProxy, (peer, sent) =>
    onWarning?.(`cannot read X-Forwarded-For of the proxy ${peer}, so its clients share one limit: ${sent}`),
  );

  return async (request, response, invalid) => {
    // A bug must not end the process.
    try {
      const exchange = arrive(request);
      respond(exchange, response, await answer(exchange, invalid));
    } catch (error) {
      onError(error);
      response.destroy();
    }
  };

  function arrive(request: IncomingMessage): Exchange {
    // The id of the client, if it has the accepted form (docs/service.md 10).
    const sentId = request.headers[REQUEST_ID];
    const id = typeof sentId === 'string' && ID_PATTERN.test(sentId) ? sentId : `${prefix}-${++count}`;
    const record = createRecord(id, clientAddress(request), request, clock.elapsed());
    return {
      request,
      record,
      headers: [],
      target: '',
      params: {},
      isChanging: false,
      isRecorded: false,
      isLogged: true,
    };
  }

  function respond(
    { request, record, headers, isRecorded, isLogged }: Exchange,
    response: ServerResponse,
    result: ServiceResponse,
  ): void {
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
    record.foreignOrigin = foreignOrigin(request, result.status, cors);
    if (isReceived) {
      record.status = result.status;
      record.code = code;
      record.message = message;
      record.responseHeaders = sent.headers;
    }
    if (isRecorded) tools?.recorder?.add(record, isReceived ? sent : undefined);
    if (isLogged || result.status >= 400) onAccess?.(record);
    // Leave out the code of a mocked response, because a mocked 429 does not mean that a limit is used up.
    countResponse?.(record.operation, result.status, record.asked ? undefined : code);
  }
}
