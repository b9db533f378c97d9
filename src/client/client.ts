import { randomUUID } from 'node:crypto';
import { header } from '../contract/headers.ts';
import { encodeIdempotencyKey } from '../contract/idempotency-key.ts';
import { stringifyJson } from '../contract/json.ts';
import {
  type Operation,
  type OperationInput,
  type OperationName,
  type OperationOutput,
  operations,
} from '../contract/operations.ts';
import { createTransport, type TransportOptions } from './attempt.ts';
import { ACCEPT_ENCODING } from './decode-body.ts';
import { type ClientError, ContractError, InterruptedError, OutcomeUnknownError } from './errors.ts';
import { requestedDelay } from './rate-limit.ts';
import type { Redact } from './reason.ts';
import {
  type AttemptEvent,
  type RequestOptions,
  type RequestPolicy,
  requestWithRetry,
} from './request-with-retry.ts';
import { type Deprecation, type HttpHeaders, parseBody, readDeprecation, toClientError } from './response.ts';
import { createServiceState } from './service-state.ts';
import type { SharedFlags } from './shared-flags.ts';

export type ClientOptions = Omit<RequestOptions, 'transport' | 'service'> &
  TransportOptions & {
    /** The base URL has no trailing slash, for example `https://api.example.com/v1`. */
    baseUrl: string;
    /** The API key. If it is empty, requests have no Authorization header. */
    key: string;
    /** The value of the header `User-Agent`. */
    userAgent: string;
    redact?: Redact | undefined;
    flags: SharedFlags;
    /** Refuses responses that do not match the contract exactly. */
    strict: boolean;
    /** Called for the first response that `success.received` of its operation allows but `success.body` does not. */
    onDifference?: ((difference: string) => void) | undefined;
    /** Called at most once a day for each operation that the service reports as deprecated. */
    onDeprecated?: ((deprecated: { operation: OperationName } & Deprecation) => void) | undefined;
  };

export type CallOptions = Partial<Pick<RequestPolicy, 'background' | 'ignoreCoolDown' | 'sendLog'>> & {
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

/** Calls the operations of the service, with retries (docs/client-behaviour.md). */
export type Client = {
  readonly baseUrl: string;
  /** @throws ClientError: see its subclasses */
  call<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    options?: CallOptions,
  ): Promise<{ value: OperationOutput<Name>; headers: HttpHeaders }>;
  /**
   * Like `call`, but leaves parsing the body to the caller, who can send the next request first.
   *
   * @throws ClientError: see its subclasses
   */
  request<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    options?: CallOptions,
  ): Promise<ClientResponse<Name>>;
  /** Whether the service has shown that it supports Idempotency-Key, which makes it safe to retry a creation. */
  supportsIdempotency(): boolean;
  /** The number of attempts that have ended, of all requests. */
  attempts(): number;
  /** Interrupts requests that have not finished, and closes all connections. */
  close(): Promise<void>;
};

export function createClient(options: ClientOptions): Client {
  const { clock, strict, onDeprecated, redact = (text) => text } = options;
  let { onDifference } = options;
  const transport = createTransport(options);
  const service = createServiceState(options, options.flags, clock);
  const closing = new AbortController();
  const signal = AbortSignal.any([options.signal, closing.signal]);
  let attempts = 0;
  const onAttempt = (attempt: AttemptEvent) => {
    attempts++;
    options.onAttempt?.(attempt);
  };

  const request: Client['request'] = async (name, input, callOptions = {}) => {
    const { background = false, ignoreCoolDown = false, sendLog } = callOptions;
    const operation: Operation = operations[name];
    const idempotencyKey = operation.acceptsIdempotencyKey && (callOptions.idempotencyKey ?? randomUUID());
    const body = operation.body && (input as { body?: unknown }).body;
    // Some services confirm a creation with another 2xx status. A 202 only promises that the creation will happen.
    const isSuccess = (status: number) =>
      status === operation.success.status ||
      (operation.method === 'POST' && status >= 200 && status <= 299 && status !== 202);
    const url = callOptions.url ?? operationUrl(options.baseUrl, operation, input);
    const { outcome, ambiguous, neededMaxWait } = await requestWithRetry(
      { ...options, onAttempt, transport, service, signal },
      {
        method: operation.method,
        url,
        headers: {
          ...(options.key !== '' && { [header.authorization]: `Bearer ${options.key}` }),
          Accept: 'application/json',
          'Accept-Encoding': ACCEPT_ENCODING,
          'User-Agent': options.userAgent,
          ...(operation.body && { 'Content-Type': 'application/json' }),
          ...(idempotencyKey !== undefined && {
            [header.idempotencyKey]: encodeIdempotencyKey(idempotencyKey),
          }),
        },
        body: operation.body && stringifyJson(body),
      },
      { idempotent: operation.idempotent, isSuccess, background, ignoreCoolDown, sendLog },
    );
    if ('error' in outcome) throw failed(outcome.error, ambiguous);
    const { response } = outcome;
    const deprecation = readDeprecation(response.headers, clock.now());
    if (deprecation && service.claimDailyNotice(name)) onDeprecated?.({ operation: name, ...deprecation });
    if (!isSuccess(response.status)) {
      const now = clock.now();
      const delay = requestedDelay(response.headers, now);
      const until = delay === undefined ? undefined : now + delay;
      throw failed(toClientError(operation, response, { until, neededMaxWait, redact }), ambiguous);
    }
    const parse = () => {
      try {
        const { value, difference } = parseBody(operation, response, { strict, redact });
        checkName(operation, response.status, { sent: body, received: value });
        if (difference !== undefined) {
          onDifference?.(difference);
          onDifference = undefined;
        }
        return value as OperationOutput<typeof name>;
      } catch (error) {
        // The status shows that a creation was applied, but the response does not show what was created.
        throw error instanceof ContractError ? failed(error, true) : error;
      }
    };
    return { parse, headers: response.headers, url };

    function failed(error: ClientError, isAmbiguous: boolean): ClientError {
      if (!isAmbiguous || idempotencyKey === undefined) return error;
      const supportsIdempotency = service.supportsIdempotency();
      return new OutcomeUnknownError(error, { idempotencyKey, supportsIdempotency });
    }
  };

  return {
    baseUrl: options.baseUrl,
    supportsIdempotency: service.supportsIdempotency,
    attempts: () => attempts,
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

/** @throws ContractError if a creation gets a success status other than 201, and an animal with another name than was sent */
function checkName(
  { method, success }: Operation,
  status: number,
  { sent, received }: Record<'sent' | 'received', unknown>,
): void {
  const [expected, name] = [sent, received].map((pet) => (pet as { name?: string } | undefined)?.name);
  if (method === 'POST' && status !== success.status && name !== expected)
    throw new ContractError(
      status,
      `unexpected response: HTTP status ${status} with an animal that has another name`,
    );
}

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
