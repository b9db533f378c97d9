import type { IncomingMessage } from 'node:http';
import type { Clock } from '../contract/clock.ts';
import { API_PREFIX } from '../contract/operations.ts';
import type { ApiKeyLookup, Authentication, Principal } from './auth/authentication.ts';
import { preflightHeaders } from './cors.ts';
import type { Faults } from './faults/faults.ts';
import { type MockRequest, mockResponse, parsePrefer } from './faults/mock-response.ts';
import { handlerOf } from './handlers.ts';
import { notFound, ServiceError, unauthorized } from './http-errors.ts';
import { hasBody } from './request/body.ts';
import type { RequestContext } from './request/context.ts';
import { createHostCheck } from './request/hosts.ts';
import { checkExpectation, checkHttp } from './request/http-checks.ts';
import { readOperationInput } from './request/input.ts';
import { validateTarget } from './request/target.ts';
import { optionsResponse, type ServiceResponse } from './response.ts';
import { allDeprecationHeaders, allowedMethods, matchRoute, type RouteMatch } from './route-match.ts';
import type { ResetGate } from './tools/reset-gate.ts';
import { createToolRequests, type Tools } from './tools/tool-requests.ts';
import { createUnversionedRoutes, type UnversionedRoutesOptions } from './unversioned-routes.ts';

export type RequestStepsOptions = UnversionedRoutesOptions & {
  clock: Clock;
  keys: ApiKeyLookup;
  /** The names that a Host header may have, besides loopback names; undefined allows every name. */
  hosts?: ReadonlySet<string> | undefined;
  /** The origins whose pages may read responses; `*` allows every origin. */
  cors?: readonly string[] | undefined;
  /** Whether a request may choose the status of its response with `Prefer`, such as `code=429`; by default true. */
  allowPrefer?: boolean;
  /** The developer tools; undefined if they are turned off. */
  tools?: Tools | undefined;
  /** By default, there are none. */
  faults?: Faults | undefined;
  /** Makes requests of the API wait for a reset; undefined if the store cannot be reset. */
  resetGate?: Pick<ResetGate, 'run' | 'waitForClient'> | undefined;
};

type MockedRequest = {
  request: IncomingMessage;
  context: RequestContext;
  principal: Principal;
  route: RouteMatch | ServiceError;
};

/**
 * Returns a function that runs the steps of a request in order (docs/service.md 4, 5, 8, 10). That function throws a
 * ServiceError if the response is an error.
 */
export function createRequestSteps(options: RequestStepsOptions, authentication: Authentication) {
  const { authenticate, consumeQuota, peekQuota } = authentication;
  const { store, clock, publicUrl, cors = [], allowPrefer = true, faults, resetGate } = options;
  const checkHost = createHostCheck(options.hosts);
  const toolRequests = options.tools && createToolRequests(options.tools, options.keys, authentication);
  const unversionedRoutes = createUnversionedRoutes(options);
  const basePath = publicUrl === undefined ? API_PREFIX : new URL(publicUrl).pathname;
  const deprecations = allDeprecationHeaders(basePath);

  async function runSteps(
    request: IncomingMessage,
    context: RequestContext,
    failsAtRandom: boolean,
  ): Promise<ServiceResponse> {
    checkHttp(request);
    context.host = checkHost(request, context.targetHost);
    if (context.kind !== 'api') {
      return toolRequests && context.kind === 'tool'
        ? toolRequests(request, context)
        : unversionedRoutes(request, context);
    }
    const run = () => runOperation(request, context, failsAtRandom);
    return resetGate ? resetGate.run(run) : run();
  }

  /** Runs the steps of a request of the API. */
  async function runOperation(
    request: IncomingMessage,
    context: RequestContext,
    failsAtRandom: boolean,
  ): Promise<ServiceResponse> {
    const { method = '', url = '' } = request;
    if (method === 'OPTIONS') return handleOptions(request, context);

    const route = matchRoute(method, url);
    if (!(route instanceof ServiceError)) {
      context.operation = route.operation;
      Object.assign(context.headers, deprecations.get(route.operation));
    }
    const principal = await authenticate(request, context);

    const { prefer } = request.headers;
    const preferred = prefer === undefined || !allowPrefer ? undefined : parsePrefer(String(prefer));
    if (preferred) return mock(preferred, { request, context, principal, route });
    const rule = route instanceof ServiceError ? undefined : faults?.applyRule(method, route);
    if (rule?.latency !== undefined) context.latency = rule.latency;
    if (rule?.mock) {
      context.injected = `rule ${rule.number} of your faults`;
      return mock(rule.mock, { request, context, principal, route });
    }
    if (failsAtRandom) {
      context.injected = '--fail-rate chose this request';
      await peekQuota(principal, context);
      throw new ServiceError('injected_fault', 'Injected fault (--fail-rate)');
    }

    const rateLimit = await consumeQuota(principal, context);
    // Throw a routing error only now: the request counts, and callers without an API key learn nothing about the routes.
    if (route instanceof ServiceError) throw route;
    checkExpectation(request);
    const read = () => readOperationInput(route, request);
    const input = await (resetGate && hasBody(request) ? resetGate.waitForClient(read) : read());
    // The body can arrive long after the headers, and the key can have been revoked meanwhile.
    if (hasBody(request) && !(await options.keys.find(principal.id))) throw unauthorized();
    return handlerOf(route.operation)(input, {
      store,
      principal,
      rateLimit,
      request,
      basePath,
      now: clock.now(),
    });
  }

  /** Sends a mocked response. The request is not counted. */
  async function mock(
    mocked: MockRequest,
    { request, context, principal, route }: MockedRequest,
  ): Promise<ServiceResponse> {
    const { status, retryAfter } = mocked;
    // A mocked 401 reports the window of anonymous callers, so do not put the caller's window into `context`.
    const peeked = await peekQuota(principal, status === 401 ? { ...context, headers: {} } : context);
    const { windows, now } = peeked;
    const window = retryAfter ? { ...peeked.window, resetAt: now + retryAfter * 1_000 } : peeked.window;
    if (route instanceof ServiceError) throw route;
    // A rule applies to every request of an operation, even if the query is malformed.
    if (mocked.applied !== undefined) validateTarget(request.url ?? '');
    const response = mockResponse(mocked, { ...route, rateLimit: { window, windows, now } });
    if (status === 429) context.window = { ...window, remaining: 0 };
    return response;
  }

  /** Reports the methods of a path (D15). The request needs no API key, and is counted only if it has an invalid one. */
  async function handleOptions(request: IncomingMessage, context: RequestContext): Promise<ServiceResponse> {
    context.operation = 'options';
    // Like any other request, an OPTIONS request with an invalid API key gets 401 and counts as anonymous.
    if (request.headers.authorization) await peekQuota(await authenticate(request, context), context);
    const allow = allowedMethods(validateTarget(request.url ?? ''));
    if (allow === undefined) throw notFound();
    return optionsResponse(allow, preflightHeaders(cors, allow));
  }

  return runSteps;
}
