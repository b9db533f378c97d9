import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import * as z from 'zod/mini';
import { encodeIdempotencyKey, header, LOOPBACK_NAME_PATTERN } from '../contract/headers.ts';
import { describeFirstIssue, describeIssues } from '../contract/issues.ts';
import { parseJson, stringifyJson } from '../contract/json.ts';
import {
  type Operation,
  type OperationInput,
  type OperationName,
  type OperationOutput,
  operations,
} from '../contract/operations.ts';
import type { NewPet, ReceivedPet } from '../contract/schemas.ts';
import { InterruptedError } from '../system/interrupted-error.ts';
import { createTransport, type TransportOptions } from './attempt.ts';
import { type AttemptEvent, type RequestOptions, type RequestPolicy, requestWithRetry } from './call.ts';
import { ContractError, OutcomeUnknownError } from './errors.ts';
import { bodyNote, explanationIn, type Redact, redacted, toClientError } from './failures.ts';
import { coolDownAfter } from './rate-limit.ts';
import { type Deprecation, type HttpHeaders, type HttpResponse, readDeprecation } from './response.ts';
import { createServiceState, type StateOptions } from './service-state.ts';

export type ClientOptions = Omit<RequestOptions, 'transport' | 'service' | 'failsFastIfRefused'> &
  TransportOptions &
  StateOptions & {
    /** The base URL has no trailing slash, for example `https://api.example.com/v1`. */
    baseUrl: string;
    /** The API key. If it is empty, requests have no Authorization header. */
    key: string;
    userAgent: string;
    redact?: Redact | undefined;
    /** Called if a response contradicts the request or the specification. Messages put the host before `difference`. */
    onDifference?: ((difference: string) => void) | undefined;
    /** Called once a day for an operation that the service removes within `NOTICE_TIME`. */
    onDeprecated?: ((deprecated: { operation: OperationName } & Deprecation) => void) | undefined;
    /** Calls `onDeprecated` instead for every response that shows that its operation is deprecated. */
    reportsEveryDeprecation?: boolean;
  };

/** How long before the removal of an operation users get notices, in milliseconds: half a year. */
const NOTICE_TIME = 180 * 86_400_000;

export type CallOptions = Partial<Pick<RequestPolicy, 'ignorePause' | 'sendLog'>> & {
  /** Replaces the URL of the operation. The origin must stay the same, because the request contains the API key. */
  url?: URL;
  /** The Idempotency-Key of a creation, random by default. All attempts of a call send the same key. */
  idempotencyKey?: string;
};

/** A successful response whose body is not parsed yet. */
export type ClientResponse<Name extends OperationName> = {
  /** @throws ContractError if the body is invalid, or OutcomeUnknownError if the response to a creation is invalid */
  parse(): OperationOutput<Name>;
  headers: HttpHeaders;
  url: URL;
};

/** Calls the operations of the service, with retries (docs/client-behavior.md). */
export type Client = {
  readonly baseUrl: string;
  /** @throws ClientError (see its subclasses), InterruptedError, or the error of `sendLog` */
  call<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    options?: CallOptions,
  ): Promise<{ value: OperationOutput<Name>; headers: HttpHeaders }>;
  /** Like `call`, also in its errors, but leaves parsing to the caller, who can send the next request first. */
  request<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    options?: CallOptions,
  ): Promise<ClientResponse<Name>>;
  /** Passes a difference on to `ClientOptions.onDifference`. */
  reportDifference(difference: string): void;
  /** Whether the service has shown that it supports Idempotency-Key, which makes it safe to retry a creation. */
  supportsIdempotency(): boolean;
  /** Interrupts requests that have not finished, and closes all connections. */
  close(): Promise<void>;
};

export function createClient(options: ClientOptions): Client {
  const { clock, onDeprecated, redact = (text) => text } = options;
  const transport = createTransport(options);
  const service = createServiceState(options, options);
  const closing = new AbortController();
  const signal = AbortSignal.any([options.signal, closing.signal]);
  // Each request in flight adds a listener to the signal; Node would warn about more than ten.
  setMaxListeners(0, signal);
  const reportDifference = (difference: string) => options.onDifference?.(difference);
  const createdIds = new Set<string>();
  let hasReportedShape = false;
  let hasResponse = false;
  const onAttempt = (attempt: AttemptEvent) => {
    hasResponse ||= 'response' in attempt.outcome;
    options.onAttempt?.(attempt);
  };
  // Nothing listens on this machine, and nothing has: the service was not started, rather than restarted.
  const isLocal = LOOPBACK_NAME_PATTERN.test(new URL(options.baseUrl).hostname);
  const failsFastIfRefused = () => isLocal && !hasResponse && options.proxy === undefined;

  const request: Client['request'] = async (name, input, callOptions = {}) => {
    const { ignorePause = false, sendLog } = callOptions;
    const operation: Operation = operations[name];
    const idempotencyKey = operation.acceptsIdempotencyKey && (callOptions.idempotencyKey ?? randomUUID());
    const body = operation.body && (input as { body?: unknown }).body;
    // Some services confirm a creation with another 2xx status. A 202 only promises that the creation will happen.
    const isSuccess = (status: number) =>
      status === operation.success.status ||
      (operation.method === 'POST' && status >= 200 && status <= 299 && status !== 202);
    const url = callOptions.url ?? operationUrl(options.baseUrl, operation, input);
    const { outcome, ambiguous, neededMaxWait } = await requestWithRetry(
      { ...options, onAttempt, failsFastIfRefused, transport, service, signal },
      {
        method: operation.method,
        url,
        headers: {
          ...(options.key !== '' && { [header.authorization]: `Bearer ${options.key}` }),
          Accept: 'application/json',
          'Accept-Encoding': 'gzip',
          'User-Agent': options.userAgent,
          ...(operation.body && { 'Content-Type': 'application/json' }),
          ...(idempotencyKey !== undefined && {
            [header.idempotencyKey]: encodeIdempotencyKey(idempotencyKey),
          }),
        },
        body: operation.body && stringifyJson(body),
      },
      { idempotent: operation.idempotent, isSuccess, ignorePause, sendLog },
    );
    if ('error' in outcome) throw failed(outcome.error, ambiguous);
    const { response } = outcome;
    const sunset = noteDeprecation(name, response.headers);
    if (!isSuccess(response.status)) {
      const now = clock.now();
      const isRemoved = sunset !== undefined && now >= sunset.getTime();
      const until = now + (coolDownAfter(response, now) ?? 0);
      const context = { until, neededMaxWait, isRemoved, redact };
      const error = toClientError(operation, response, context);
      throw failed(error, ambiguous);
    }
    const parse = () => {
      try {
        const { value, difference } = parseBody(operation, response, redact);
        if (operation.method === 'POST') {
          const change = compareCreated(body as NewPet, value as ReceivedPet, response.status, createdIds);
          if (change !== undefined) reportDifference(`added the animal with ${change}`);
        }
        if (difference !== undefined && !hasReportedShape) {
          hasReportedShape = true;
          reportDifference(
            `sent animals that do not match the specification (${difference}); they are kept as received`,
          );
        }
        return value as OperationOutput<typeof name>;
      } catch (error) {
        // The status shows that a creation was applied, but the response does not show what was created.
        throw error instanceof ContractError ? failed(error, true) : error;
      }
    };
    return { parse, headers: response.headers, url };

    function failed(error: Error, isAmbiguous: boolean): Error {
      if (!isAmbiguous || idempotencyKey === undefined) return error;
      const supportsIdempotency = service.supportsIdempotency();
      return new OutcomeUnknownError(error, { idempotencyKey, supportsIdempotency });
    }
  };

  /** Reports what a response says about the removal of an operation. Returns the date, if it is known. */
  function noteDeprecation(name: OperationName, headers: HttpHeaders): Date | undefined {
    const { deprecated }: Operation = operations[name];
    const deprecation = readDeprecation(headers);
    const sunset = deprecation?.sunset ?? deprecated?.sunset;
    const isNear = sunset !== undefined && sunset.getTime() - clock.now() <= NOTICE_TIME;
    const isDue = () => options.reportsEveryDeprecation || (isNear && service.claimDailyNotice(name));
    if (deprecation && isDue()) onDeprecated?.({ operation: name, ...deprecation });
    return sunset;
  }

  return {
    baseUrl: options.baseUrl,
    reportDifference,
    supportsIdempotency: service.supportsIdempotency,
    request,
    async call(name, input, callOptions) {
      const { parse, headers } = await request(name, input, callOptions);
      return { value: parse(), headers };
    },
    close() {
      closing.abort(new InterruptedError());
      return transport.close();
    },
  };
}

/**
 * Parses and validates the body of a successful response. A value that does not match `success.body` is accepted if it
 * matches `success.received`; `difference` then says how it differs from the contract.
 *
 * @throws ContractError for any other body
 */
function parseBody(
  { success }: Operation,
  response: HttpResponse,
  redact: Redact,
): { value: unknown; difference?: string } {
  const { status, body, unreadable } = response;
  if (unreadable !== undefined) throw new ContractError(status, `unexpected response: ${unreadable}`);
  let value: unknown;
  try {
    value = parseJson(body);
  } catch (cause) {
    const problem = `HTTP status ${status}, not JSON that pets can read${bodyNote(redacted(response, redact))}`;
    throw new ContractError(status, `unexpected response: ${problem}`, { cause });
  }
  const exact = z.safeParse(success.body, value);
  if (exact.success) return { value: exact.data };
  const received = z.safeParse(success.received, value);
  if (received.success) return { value: received.data, difference: describeFirstIssue(exact.error) };
  const reason = explanationIn(value);
  const issues = describeIssues(received.error);
  throw new ContractError(status, `unexpected response: ${issues}${reason ? ` (${reason})` : ''}`);
}

/**
 * Compares the animal in the response to a creation with the one that was sent. Fields that are missing are not compared.
 * Returns the values that the service has changed; undefined if there are none.
 *
 * @param ids the ids in earlier responses; the function adds the id of this response
 * @throws ContractError if the response is about another animal, by its name or its id
 */
function compareCreated(
  sent: NewPet,
  received: ReceivedPet,
  status: number,
  ids: Set<string>,
): string | undefined {
  const refuse = (reason: string) =>
    new ContractError(status, `unexpected response: an animal with ${reason}`);
  const id = String(received.id);
  const [name, receivedName] = [sent.name, received.name];
  if (fold(name) !== fold(receivedName))
    throw refuse(`the name ${JSON.stringify(receivedName)} instead of ${JSON.stringify(name)}`);
  if (ids.has(id)) throw refuse(`id ${id}, which the service has already given to another animal`);
  ids.add(id);
  const changes = (['status', 'categoryId'] as const)
    .filter((field) => {
      const [before, after] = [sent[field], received[field]];
      return before !== undefined && after != null && comparable(before) !== comparable(after);
    })
    .map((field) => `${field} ${String(received[field])} instead of ${sent[field]}`);
  return changes.length === 0 ? undefined : changes.join(' and ');
}

/** Names that a service may treat as the same are mapped to the same text. */
const fold = (name: string): string => name.normalize('NFC').trim().toUpperCase().toLowerCase();

/** Converts a status or category to text for comparing. A category may be a number, or text such as `07` or `7.0`. */
const comparable = (value: unknown): string => fold(String(value)).replace(/^\+?0*(\d+)(\.0+)?$/, '$1');

function operationUrl(baseUrl: string, operation: Operation, input: unknown): URL {
  type Parameters = Record<string, unknown> | undefined;
  const { params = {}, query = {} } = input as { params: Parameters; query: Parameters };
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(params[name])));
  const url = new URL(baseUrl + path);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return url;
}
