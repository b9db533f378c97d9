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
import type { Reply } from './attempt.ts';
import { type Deprecation, readDeprecation } from './deprecation.ts';
import { ApiFailure, type ClientError, ContractError, OutcomeUnknownError } from './errors.ts';
import type { ReplyHeaders } from './headers.ts';
import { failureOf, readValue } from './reply.ts';
import { createSender, type SenderOptions, type SendRecord } from './sender.ts';

export type ClientOptions = SenderOptions & {
  /** Ends in the version prefix, without a slash behind it. */
  baseUrl: string;
  key: string;
  /** Told once a day of each operation that the service says it will remove. */
  onDeprecated?: ((deprecated: { operation: OperationName } & Deprecation) => void) | undefined;
};

export type CallOptions = {
  /** Instead of the operation's own address: a page's link, at the same origin. */
  url?: URL;
  idempotencyKey?: string;
  /** One call of many: pauses up to a minute's edge cost nothing of the allowed waiting time. */
  paced?: boolean;
  /** Asks whatever is known of a cool-down, which an answer then clears. */
  probe?: boolean;
  record?: SendRecord;
};

/** A success whose body is still to be read. */
export type Answer<Name extends OperationName> = {
  /** @throws ClientError, where the body is outside the contract */
  read(): OperationOutput<Name>;
  headers: ReplyHeaders;
  url: URL;
};

export type CallResult<Name extends OperationName> = Omit<Answer<Name>, 'read'> & {
  value: OperationOutput<Name>;
};

/** The operations of the contract, called over HTTP. */
export type Client = {
  /** @throws ClientError, by its kind */
  call<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    options?: CallOptions,
  ): Promise<CallResult<Name>>;
  /**
   * The same up to the reading of the body: whoever asks for many can send the next request before.
   *
   * @throws ClientError, by its kind
   */
  ask<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    options?: CallOptions,
  ): Promise<Answer<Name>>;
  /** Whether the service has shown that it honours the idempotency key: then a creation can be repeated. */
  honoursIdempotency(): boolean;
};

export function createClient(options: ClientOptions): Client {
  const { service } = options;
  const send = createSender(options);

  function tellDeprecation(operation: OperationName, { headers }: Reply): void {
    const deprecation = readDeprecation(headers, options.clock.now());
    if (deprecation && service.isNewToday(operation)) options.onDeprecated?.({ operation, ...deprecation });
  }

  const ask: Client['ask'] = async (
    name,
    input,
    { url: link, idempotencyKey: givenKey, paced = false, probe = false, record } = {},
  ) => {
    const operation: Operation = operations[name];
    const url = link ?? addressOf(options.baseUrl, operation, input);
    // One key for all attempts of one creation, so that a service which honours it adds one animal.
    const idempotencyKey = operation.repeatable ? undefined : (givenKey ?? randomUUID());
    const headers = requestHeaders(options.key, operation, idempotencyKey);
    const body = operation.body ? stringifyJson((input as { body?: unknown }).body) : undefined;
    const { repeatable } = operation;
    const { outcome, until, doubted } = await send(
      { method: operation.method, url, headers, body },
      { repeatable, success: operation.success.status, paced, probe, record },
    );
    if ('reply' in outcome) tellDeprecation(name, outcome.reply);
    const failed = (failure: ClientError, isDoubted: boolean): ClientError =>
      isDoubted && idempotencyKey !== undefined
        ? new OutcomeUnknownError(failure, { idempotencyKey, honoured: service.honoursIdempotency() })
        : failure;
    if ('failure' in outcome) throw failed(outcome.failure, doubted);
    const { reply } = outcome;
    if (reply.status !== operation.success.status) {
      throw failed(withinContract(operation, failureOf(reply, until)), doubted);
    }
    const read = () => {
      try {
        return readValue(operation, reply) as OperationOutput<typeof name>;
      } catch (error) {
        // It was carried out, but what came of it cannot be read.
        throw error instanceof ContractError ? failed(error, true) : error;
      }
    };
    return { read, headers: reply.headers, url };
  };

  return {
    honoursIdempotency: service.honoursIdempotency,
    ask,
    async call(name, input, callOptions) {
      const { read, ...answer } = await ask(name, input, callOptions);
      return { ...answer, value: read() };
    },
  };
}

/** A 404 of an operation that has none is no answer about an animal: the service is somewhere else. */
function withinContract({ errors }: Operation, failure: ClientError): ClientError {
  if (!(failure instanceof ApiFailure) || failure.status !== 404 || errors.includes(404)) return failure;
  return new ContractError(404, `it has no such address (404: ${failure.message})`);
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
