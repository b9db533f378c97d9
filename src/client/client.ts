import { randomUUID } from 'node:crypto';
import type { Clock } from '../contract/clock.ts';
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
import { ApiFailure, NetworkError, OutcomeUnknownError, TimeoutError } from './errors.ts';
import { type ReplyHeaders, readHeader } from './headers.ts';
import { failureOf, readValue } from './reply.ts';
import { decideRetry, type Outcome } from './retry.ts';
import type { Attempt, Reply, Transport } from './transport.ts';

export type Wait = { reason: string; milliseconds: number; until: number };

/** One attempt that was made: for `--debug`. It holds no key. */
export type Attempted = {
  method: string;
  url: string;
  milliseconds: number;
  outcome: { status: number; headers: ReplyHeaders } | { failure: string };
};

export type ClientOptions = {
  /** Ends in the version prefix, without a slash behind it. */
  baseUrl: string;
  key: string;
  transport: Transport;
  clock: Clock;
  /** Ends early, and rejects, when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** Uniform in [0, 1). */
  random(): number;
  signal: AbortSignal;
  timeoutMilliseconds: number;
  /** What one call may wait in all; undefined where it never tries again. */
  maxWaitMilliseconds: number | undefined;
  onWait?: ((wait: Wait) => void) | undefined;
  onAttempted?: ((attempted: Attempted) => void) | undefined;
  /** Told once of each operation that the service says it will remove. */
  onDeprecated?: ((deprecated: Deprecated) => void) | undefined;
};

/** `sunset` is the day of the removal, where the service names one. */
export type Deprecated = { operation: OperationName; sunset: Date | undefined };

export type CallOptions = {
  /** Instead of the operation's own address: a page's link, at the same origin. */
  url?: URL;
  idempotencyKey?: string;
};

export type CallResult<Name extends OperationName> = {
  value: OperationOutput<Name>;
  headers: ReplyHeaders;
  url: URL;
};

/** The operations of the contract, called over HTTP. */
export type Client = {
  /** @throws ClientError, by its kind */
  call<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    options?: CallOptions,
  ): Promise<CallResult<Name>>;
};

export function createClient(options: ClientOptions): Client {
  const told = new Set<OperationName>();

  function tellDeprecation(operation: OperationName, { headers }: Reply): void {
    const sunset = readHeader(headers, header.sunset);
    if (told.has(operation) || (sunset ?? readHeader(headers, header.deprecation)) === undefined) return;
    told.add(operation);
    const time = Date.parse(sunset ?? '');
    options.onDeprecated?.({ operation, sunset: Number.isNaN(time) ? undefined : new Date(time) });
  }

  return {
    async call(name, input, callOptions = {}) {
      const operation: Operation = operations[name];
      const url = callOptions.url ?? addressOf(options.baseUrl, operation, input);
      // One key for all attempts of one creation, so that a service which honours it adds one animal.
      const idempotencyKey = operation.repeatable ? undefined : (callOptions.idempotencyKey ?? randomUUID());
      const headers = requestHeaders(options.key, operation, idempotencyKey);
      const body = operation.body ? stringifyJson((input as { body?: unknown }).body) : undefined;
      const request = { method: operation.method, url, headers, body };
      const { reply, until } = await sendWithRetries(options, operation, request).catch((failure) => {
        throw inDoubt(failure, idempotencyKey);
      });
      tellDeprecation(name, reply);
      if (reply.status !== operation.success.status) throw inDoubt(failureOf(reply, until), idempotencyKey);
      return {
        value: readValue(operation, reply) as OperationOutput<typeof name>,
        headers: reply.headers,
        url,
      };
    },
  };
}

/** The last reply, and until when it asks to wait, in milliseconds since the epoch. */
type Final = { reply: Reply; until: number };

/** The loop: it sends and sleeps, and decides nothing. @throws the failure of an attempt without a reply */
async function sendWithRetries(
  options: ClientOptions,
  operation: Operation,
  request: Pick<Attempt, 'method' | 'url' | 'headers' | 'body'>,
): Promise<Final> {
  const { transport, clock, signal, timeoutMilliseconds, maxWaitMilliseconds } = options;
  let waited = 0;
  for (let attempt = 1; ; attempt++) {
    const started = clock.now();
    const outcome: Outcome = await transport.send({ ...request, timeoutMilliseconds, signal }).then(
      (reply) => ({ reply }),
      (failure: unknown) => ({ failure }),
    );
    options.onAttempted?.(attempted(request, outcome, clock.now() - started));
    if ('reply' in outcome && outcome.reply.status === operation.success.status) {
      return { reply: outcome.reply, until: clock.now() };
    }
    const decision = decideRetry(outcome, {
      repeatable: operation.repeatable,
      attempt,
      waited,
      maxWait: maxWaitMilliseconds ?? -1,
      now: clock.now(),
      random: options.random(),
    });
    if (!decision.retry) {
      if ('failure' in outcome) throw outcome.failure;
      return { reply: outcome.reply, until: clock.now() + (decision.wait ?? 0) };
    }
    options.onWait?.({
      reason: decision.reason,
      milliseconds: decision.wait,
      until: clock.now() + decision.wait,
    });
    await options.sleep(decision.wait, signal);
    waited += decision.wait;
  }
}

function attempted(
  { method, url }: Pick<Attempt, 'method' | 'url'>,
  outcome: Outcome,
  milliseconds: number,
): Attempted {
  if ('failure' in outcome) {
    return { method, url: url.href, milliseconds, outcome: { failure: String(outcome.failure) } };
  }
  const { status, headers } = outcome.reply;
  return { method, url: url.href, milliseconds, outcome: { status, headers } };
}

function addressOf(baseUrl: string, operation: Operation, input: unknown): URL {
  const { params = {}, query = {} } = input as Record<
    'params' | 'query',
    Record<string, unknown> | undefined
  >;
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(params[name])));
  const url = new URL(baseUrl + path);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return url;
}

/** The failure of a creation that may have been carried out all the same, as what it is; any other as it came. */
function inDoubt(failure: unknown, idempotencyKey: string | undefined): unknown {
  const isSent =
    failure instanceof NetworkError || failure instanceof TimeoutError
      ? failure.sent
      : failure instanceof ApiFailure && failure.status >= 500;
  return isSent && idempotencyKey !== undefined ? new OutcomeUnknownError(failure, idempotencyKey) : failure;
}

function requestHeaders(
  key: string,
  operation: Operation,
  idempotencyKey: string | undefined,
): Record<string, string> {
  return {
    [header.authorization]: `Bearer ${key}`,
    Accept: 'application/json',
    ...(operation.body && { 'Content-Type': 'application/json' }),
    ...(idempotencyKey !== undefined && { [header.idempotencyKey]: encodeIdempotencyKey(idempotencyKey) }),
  };
}
