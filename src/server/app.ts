import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ErrorCode } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import { StoreFailedError, StoreUnavailableError, StoreUnwritableError } from '../store/errors.ts';
import {
  type AuthenticationOptions,
  createAnonymousWindow,
  createAuthentication,
} from './auth/authentication.ts';
import { corsHeaders } from './cors.ts';
import type { RandomFault } from './faults/faults.ts';
import {
  ServiceError,
  serviceStarting,
  serviceUnavailable,
  storageFailed,
  storageFull,
} from './http-errors.ts';
import { clientAddress, type IsTrustedProxy, peerAddress } from './request/client-address.ts';
import type { RequestContext } from './request/context.ts';
import { createRequestIds } from './request/request-id.ts';
import { splitTarget } from './request/target.ts';
import { createRequestSteps, type RequestStepsOptions } from './request-steps.ts';
import {
  rateLimitHeaders,
  type SentResponse,
  type ServiceResponse,
  sendResponse,
  sentResponse,
} from './response.ts';
import { kindOfTarget } from './target-kind.ts';
import type { Recorder, RunningRequest } from './tools/recorder.ts';

/** A response, as the access log reports it. The entry has neither the API key nor the body of the request. */
export type AccessLogEntry = Pick<RequestContext, 'id' | 'client' | 'method' | 'url'> & {
  /** When the response was sent, in milliseconds since the epoch. */
  time: number;
  /** The name of the API key; undefined if the request had no valid one. */
  keyName: string | undefined;
  status: number;
  /** The code of an error response. */
  code: ErrorCode | undefined;
  milliseconds: number;
};

export type AppOptions = AuthenticationOptions &
  RequestStepsOptions & {
    /** Undefined if no reverse proxy is trusted. */
    isTrustedProxy?: IsTrustedProxy | undefined;
    /** Waits for an injected latency, in milliseconds; returns early when the service stops. */
    sleep?: ((milliseconds: number) => Promise<void>) | undefined;
    onAccess?: ((entry: AccessLogEntry) => void) | undefined;
    /** Counts a response. `operation` is undefined if the request matched no operation or route. */
    countResponse?:
      | ((operation: string | undefined, status: number, code: ErrorCode | undefined) => void)
      | undefined;
    /** Records all requests, except those for the developer tools. */
    recorder?: Recorder | undefined;
  };

/** The options that do not need an open store. */
type ResponderOptions = Pick<
  AppOptions,
  | 'anonymousLimiter'
  | 'clock'
  | 'cors'
  | 'faults'
  | 'isTrustedProxy'
  | 'recorder'
  | 'sleep'
  | 'onAccess'
  | 'onError'
  | 'countResponse'
>;

export type App = ReturnType<typeof createResponder>;

const NO_FAULT: RandomFault = { latency: 0, fails: false };

/** The whole service as a request handler; it does not listen. */
export const createApp = (options: AppOptions): App =>
  createResponder(options, createRequestSteps(options, createAuthentication(options)));

/** Responds to every request with 503 `starting`, until the store is open (docs/service.md 7). */
export const createStartingApp = (options: ResponderOptions): App =>
  createResponder(options, () => Promise.reject(serviceStarting()));

/** Sends the response to each request, with the headers that all responses have, and reports it. */
function createResponder(options: ResponderOptions, runSteps: ReturnType<typeof createRequestSteps>) {
  const { clock, cors = [], onAccess, faults, recorder } = options;
  const anonymousWindow = createAnonymousWindow(options);
  const requestId = createRequestIds();
  // The latest request per connection. The response to a parser error reports the rate-limit window of that request.
  const contexts = new WeakMap<Socket, RequestContext>();

  /** Responds to a request; never rejects. */
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket, method = '', url = '' } = request;
    const { target, targetHost } = splitTarget(method, url);
    request.url = target;
    const client = clientAddress(request, options.isTrustedProxy);
    const kind = kindOfTarget(target);
    const context = createContext({ id: requestId(request), client, method, url, targetHost, kind });
    const isTool = kind === 'tool' || kind === 'page';
    // Pages of other origins must not learn how this service is used.
    if (cors.length > 0 && !isTool && kind !== 'metrics')
      Object.assign(context.headers, corsHeaders(request.headers.origin, cors));
    contexts.set(socket, context);
    // Requests outside the API, such as health checks, and OPTIONS requests never get an injected fault.
    const fault = faults && kind === 'api' && method !== 'OPTIONS' ? faults.nextRandom() : NO_FAULT;
    context.latency = fault.latency;
    const running = isTool ? undefined : recorder?.begin(context, request);
    try {
      const result = await runSteps(request, context, fault.fails).catch(toErrorResponse);
      const window = context.window ?? (await anonymousWindow(context.client));
      if (context.latency > 0) await delay(socket, context.latency);
      context.isFinished = true;
      // A parser error may have been sent as the response in the meantime.
      const sent = response.headersSent ? undefined : sendResponse(response, result, window, context.headers);
      const { statusCode: status } = response;
      const error = result instanceof ServiceError && result.status === status ? result : undefined;
      report(context, status, error, running, sent);
    } catch (error) {
      options.onError(error);
      response.destroy();
    }
  }

  const createContext = ({
    id,
    client,
    method,
    url,
    targetHost,
    kind,
  }: Pick<RequestContext, 'id' | 'client' | 'method' | 'url' | 'targetHost' | 'kind'>): RequestContext => ({
    id,
    client,
    method,
    url,
    targetHost,
    kind,
    // Reading the clock takes a noticeable part of the time of a request, so do this only if requests are logged or recorded.
    started: onAccess || recorder ? clock.elapsed() : 0,
    latency: 0,
    headers: { [header.requestId]: id },
  });

  /**
   * Counts a response, logs it if there is a log, and records it with `sent`. `running` is undefined if the request is not to
   * be recorded.
   */
  function report(
    context: RequestContext,
    status: number,
    error: ServiceError | undefined,
    running: RunningRequest | undefined,
    sent: SentResponse | undefined,
  ): void {
    const { code, message } = error ?? {};
    const { id, client, keyName, method, url } = context;
    options.countResponse?.(context.operation, status, code);
    if (!onAccess && !recorder) return;
    const milliseconds = clock.elapsed() - context.started;
    const time = clock.now();
    onAccess?.({ time, id, client, keyName, method, url, status, code, milliseconds });
    if (running) recorder?.end(running, { time, milliseconds, status, code, message, sent });
  }

  function toErrorResponse(error: unknown): ServiceResponse {
    if (error instanceof ServiceError) return error;
    if (error instanceof StoreUnavailableError) return serviceUnavailable();
    if (error instanceof StoreUnwritableError) return storageFull();
    if (error instanceof StoreFailedError) return storageFailed();
    options.onError(error);
    return new ServiceError('internal_error', 'Internal error');
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
      const { status, body } = error;
      const latest = contexts.get(socket);
      // If the error interrupts a request, the handler of that request counts and logs the response.
      const isInterrupted = latest !== undefined && !latest.isFinished;
      const context = isInterrupted
        ? latest
        : createContext({
            id: requestId(),
            client: peerAddress(socket),
            method: '-',
            url: '-',
            kind: 'other',
          });
      const window = context.window ?? (await anonymousWindow(context.client));
      const headers = { ...rateLimitHeaders(window), ...context.headers, ...error.headers };
      if (!isInterrupted) {
        const sent = sentResponse(Object.entries(headers).flat(), body);
        report(context, status, error, recorder?.begin(context), sent);
      }
      return { status, headers, body };
    },
  };
}
