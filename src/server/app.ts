import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { header } from '../contract/headers.ts';
import { API_PREFIX } from '../contract/operations.ts';
import type { Store } from '../store/store.ts';
import { type AdmissionOptions, createAdmission, type Exchange } from './caller/admission.ts';
import type { Caller } from './caller/auth.ts';
import { corsHeaders, preflightHeaders } from './cors.ts';
import { type Errand, findErrand, methodOf } from './errand.ts';
import { type Fault, type FaultOptions, faultOf } from './faults/draw.ts';
import { preferredAnswer, preferredCode } from './faults/prefer.ts';
import { type Answer, callHandler } from './handlers.ts';
import { nothingAt } from './refusals.ts';
import { checkExpectation } from './request/expect.ts';
import { checkFrame } from './request/frame.ts';
import { checkHost } from './request/hosts.ts';
import { readInput } from './request/input.ts';
import { checkTarget } from './request/target.ts';
import { rateLimitHeaders } from './response-headers.ts';
import { createRoot } from './root.ts';
import { createRounds } from './rounds.ts';
import { allowedMethods, findResource } from './router.ts';
import { send } from './send.ts';
import { ServiceError } from './service-error.ts';

export type Answered = { method: string; url: string; status: number; milliseconds: number };

export type AppOptions = AdmissionOptions & {
  store: Store;
  /** The names that a Host header may have; undefined for every name. */
  hosts?: ReadonlySet<string> | undefined;
  /** The origins whose pages may read the answers; `*` for every one. */
  cors?: readonly string[] | undefined;
  faults?: FaultOptions | undefined;
  /** Holds an answer back, in milliseconds; cut short where the service stops. */
  sleep?: ((milliseconds: number) => Promise<void>) | undefined;
  onAnswered?: ((answered: Answered) => void) | undefined;
};

const NO_FAULT: Fault = { latency: 0, fails: false };

/** The whole service; it does not listen. */
export type App = {
  /** Answers a request. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** The answer to what never became a whole request, because Node's parser refused it. */
  refuse(error: ServiceError, socket: Socket): Promise<Answer>;
};

export function createApp(options: AppOptions): App {
  const { store, clock, cors = [] } = options;
  const admission = createAdmission(options);
  const root = createRoot(store);
  const endOfRound = createRounds();
  let requests = 0;
  /** What is being answered on a connection: where the rest of a request is refused, its caller may be known. */
  const running = new WeakMap<Socket, Exchange>();

  async function respond(request: IncomingMessage, exchange: Exchange, fault: Fault): Promise<Answer> {
    checkFrame(request);
    checkHost(request, options.hosts);
    const url = request.url ?? '';
    if (!isUnderApi(url)) return await root(methodOf(request), checkTarget(url));
    if (request.method === 'OPTIONS') return await describeResource(request, exchange);
    const errand = findErrand(request, exchange.headers);
    // Who asks comes before what is asked for: a stranger learns nothing, and what a caller gets wrong is counted.
    const caller = await admission.identify(request, exchange);
    const code = preferredCode(request.headers['prefer']);
    if (code !== undefined) return await answerAsAsked(code, caller, errand, exchange);
    if (fault.fails) {
      await admission.greet(caller, exchange);
      throw new ServiceError('injected_fault', 'This fault was asked for with --fail-rate');
    }
    await admission.count(caller, exchange);
    if (errand instanceof ServiceError) throw errand;
    checkExpectation(request);
    const { operation, resource, query } = errand;
    const input = await readInput(operation, { params: resource.params, query, request });
    return await callHandler(operation, input, { store, caller, request, now: clock.now() });
  }

  /** The answer that `Prefer: code=NNN` asks for: a caller's own test of what it does then. */
  async function answerAsAsked(
    code: string,
    caller: Caller,
    errand: Errand | ServiceError,
    exchange: Exchange,
  ): Promise<Answer> {
    // A 401 is for somebody whom the service does not know, and over the limit nothing is left.
    const seen: Exchange = code === '401' ? { headers: {} } : exchange;
    const window = await admission.greet(caller, seen);
    if (code === '429') exchange.window = { ...window, remaining: 0 };
    if (errand instanceof ServiceError) throw errand;
    const { operation, path, resource } = errand;
    return preferredAnswer(code, {
      operation,
      path,
      allow: allowedMethods(resource),
      window,
      now: clock.now(),
    });
  }

  /** The methods of a resource, for anybody and uncounted (design D15). */
  async function describeResource(request: IncomingMessage, exchange: Exchange): Promise<Answer> {
    // It needs no key; but a wrong one counts as it does anywhere.
    if (request.headers.authorization) {
      await admission.greet(await admission.identify(request, exchange), exchange);
    }
    const path = checkTarget(request.url ?? '');
    const resource = findResource(path);
    if (resource === undefined) throw nothingAt(path);
    const methods = allowedMethods(resource);
    Object.assign(exchange.headers, preflightHeaders(cors, methods));
    return { status: 204, headers: { [header.allow]: methods }, body: '' };
  }

  /** What becomes of a request, an error too. */
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const started = clock.now();
    const exchange: Exchange = { headers: corsHeaders(request.headers.origin, cors) };
    running.set(request.socket, exchange);
    const fault = options.faults && isFaulty(request) ? faultOf(options.faults, requests++) : NO_FAULT;
    let answer: Answer;
    try {
      answer = await respond(request, exchange, fault);
    } catch (error) {
      answer = errorAnswer(error, options.onError);
    }
    const window = exchange.window ?? (await admission.strangersWindow(request.socket.remoteAddress));
    if (fault.latency > 0) await holdBack(request.socket, fault.latency);
    await endOfRound();
    running.delete(request.socket);
    // The rest of the request may have been refused meanwhile, and that was its answer.
    if (!response.headersSent) send(response, answer, window, exchange.headers);
    const { method = '', url = '' } = request;
    options.onAnswered?.({ method, url, status: response.statusCode, milliseconds: clock.now() - started });
  }

  /** What is held back on purpose is not idle. */
  async function holdBack(socket: Socket, milliseconds: number): Promise<void> {
    const { timeout = 0 } = socket;
    socket.setTimeout(0);
    await options.sleep?.(milliseconds);
    socket.setTimeout(timeout);
  }

  return {
    async handle(request, response) {
      try {
        await answer(request, response);
      } catch (error) {
        // Nothing that goes wrong with one answer may end the service.
        options.onError(error);
        response.destroy();
      }
    },
    async refuse(error, socket) {
      const exchange = running.get(socket);
      const window = exchange?.window ?? (await admission.strangersWindow(socket.remoteAddress));
      const headers = { ...rateLimitHeaders(window), ...exchange?.headers, ...error.headers };
      return { status: error.status, headers, body: error.body };
    },
  };
}

function errorAnswer(error: unknown, onError: AppOptions['onError']): Answer {
  if (error instanceof ServiceError) return error;
  onError(error);
  return new ServiceError('internal_error', 'The service has failed');
}

const isUnderApi = (url: string): boolean =>
  url.startsWith(API_PREFIX) && ['', '/', '?'].includes(url.charAt(API_PREFIX.length));

/** Faults befall the API alone: a preflight, and whether the service is up, are told as they are. */
const isFaulty = (request: IncomingMessage): boolean =>
  request.method !== 'OPTIONS' && isUnderApi(request.url ?? '');
