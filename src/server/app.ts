import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { header } from '../contract/headers.ts';
import { API_PREFIX } from '../contract/operations.ts';
import type { Store } from '../store/store.ts';
import { type Awaitable, attempt, next } from './awaitable.ts';
import { type AdmissionOptions, createAdmission, type Exchange } from './caller/admission.ts';
import type { Caller } from './caller/auth.ts';
import { corsHeaders, preflightHeaders } from './cors.ts';
import { type Errand, findErrand, methodOf } from './errand.ts';
import { type Fault, type FaultOptions, faultOf } from './faults/draw.ts';
import { preferredAnswer, preferredCode } from './faults/prefer.ts';
import { FinalAnswers } from './final-answers.ts';
import { type Answer, callHandler } from './handlers.ts';
import { nothingAt } from './refusals.ts';
import { checkExpectation } from './request/expect.ts';
import { checkFrame } from './request/frame.ts';
import { createHostCheck } from './request/hosts.ts';
import { readInput } from './request/input.ts';
import { checkTarget } from './request/target.ts';
import { rateLimitHeaders } from './response-headers.ts';
import { createRoot } from './root.ts';
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
  /** Answers a request: at once, where nothing has to be waited for. Does not fail. */
  handle(request: IncomingMessage, response: ServerResponse): Awaitable<void>;
  /** The answer to what never became a whole request, because Node's parser refused it. */
  refuse(error: ServiceError, socket: Socket): Promise<Answer>;
};

export function createApp(options: AppOptions): App {
  const { store, clock, cors = [] } = options;
  const admission = createAdmission(options);
  const checkHost = createHostCheck(options.hosts);
  const root = createRoot(store);
  const finals = new FinalAnswers();
  let requests = 0;
  /** The last of each connection: where the rest of a request is refused, its caller may be known. */
  const exchanges = new WeakMap<Socket, Exchange>();

  function respond(request: IncomingMessage, exchange: Exchange, fault: Fault): Awaitable<Answer> {
    checkFrame(request);
    checkHost(request);
    const url = request.url ?? '';
    if (!isUnderApi(url)) return root(methodOf(request), checkTarget(url));
    if (request.method === 'OPTIONS') return describeResource(request, exchange);
    const errand = findErrand(request, exchange.headers);
    // Who asks comes before what is asked for: a stranger learns nothing, and what a caller gets wrong is counted.
    return next(admission.identify(request, exchange), (caller) => {
      const code = preferredCode(request.headers['prefer']);
      if (code !== undefined) return answerAsAsked(code, caller, errand, exchange);
      if (fault.fails) return failAsAsked(caller, exchange);
      return next(admission.count(caller, exchange), () => {
        if (errand instanceof ServiceError) throw errand;
        checkExpectation(request);
        return finals.get(errand) ?? work(errand, caller, request);
      });
    });
  }

  /** What the operation of a request comes to. */
  async function work(errand: Errand, caller: Caller, request: IncomingMessage): Promise<Answer> {
    const { operation, target, resource } = errand;
    const reading = readInput(operation, { target, params: resource.params, request });
    // Only a body has to be waited for.
    const input = reading instanceof Promise ? await reading : reading;
    const answer = await callHandler(operation, input, { store, caller, request, now: clock.now() });
    finals.add(errand, answer);
    return answer;
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
    const { operation, target, path, resource } = errand;
    checkTarget(target);
    return preferredAnswer(code, {
      operation,
      path,
      allow: allowedMethods(resource),
      window,
      now: clock.now(),
    });
  }

  /** The fault that `--fail-rate` asked for. */
  async function failAsAsked(caller: Caller, exchange: Exchange): Promise<never> {
    await admission.greet(caller, exchange);
    throw new ServiceError('injected_fault', 'This fault was asked for with --fail-rate');
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
  function answer(request: IncomingMessage, response: ServerResponse): Awaitable<void> {
    const started = clock.now();
    const { socket, method = '', url = '' } = request;
    const exchange: Exchange = { headers: corsHeaders(request.headers.origin, cors) };
    exchanges.set(socket, exchange);
    const fault = options.faults && isFaulty(request) ? faultOf(options.faults, requests++) : NO_FAULT;
    const responding = attempt(() => respond(request, exchange, fault), errorAnswer);
    return next(responding, (answer) =>
      next(exchange.window ?? admission.strangersWindow(socket.remoteAddress), (window) =>
        next(fault.latency > 0 ? holdBack(socket, fault.latency) : undefined, () => {
          exchange.isOver = true;
          // The rest of the request may have been refused meanwhile, and that was its answer.
          if (!response.headersSent) send(response, answer, window, exchange.headers);
          const milliseconds = clock.now() - started;
          options.onAnswered?.({ method, url, status: response.statusCode, milliseconds });
        }),
      ),
    );
  }

  function errorAnswer(error: unknown): Answer {
    if (error instanceof ServiceError) return error;
    options.onError(error);
    // A store that has failed answers nothing any more, and nobody does in its place.
    finals.clear();
    return new ServiceError('internal_error', 'The service has failed');
  }

  /** What is held back on purpose is not idle. */
  async function holdBack(socket: Socket, milliseconds: number): Promise<void> {
    const { timeout = 0 } = socket;
    socket.setTimeout(0);
    await options.sleep?.(milliseconds);
    socket.setTimeout(timeout);
  }

  return {
    handle(request, response) {
      // Nothing that goes wrong with one answer may end the service.
      const failed = (error: unknown) => {
        options.onError(error);
        response.destroy();
      };
      return attempt(() => answer(request, response), failed);
    },
    async refuse(error, socket) {
      const last = exchanges.get(socket);
      const running = last?.isOver ? undefined : last;
      const window = running?.window ?? (await admission.strangersWindow(socket.remoteAddress));
      const headers = { ...rateLimitHeaders(window), ...running?.headers, ...error.headers };
      return { status: error.status, headers, body: error.body };
    },
  };
}

const isUnderApi = (url: string): boolean =>
  url.startsWith(API_PREFIX) && ['', '/', '?'].includes(url.charAt(API_PREFIX.length));

/** Faults befall the API alone: a preflight, and whether the service is up, are told as they are. */
const isFaulty = (request: IncomingMessage): boolean =>
  request.method !== 'OPTIONS' && isUnderApi(request.url ?? '');
