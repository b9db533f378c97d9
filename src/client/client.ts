import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import * as z from 'zod/mini';
import { encodeIdempotencyKey, header, LOOPBACK_NAME_PATTERN } from '../contract/headers.ts';
import { describeIssues } from '../contract/issues.ts';
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
import { type RequestOptions, type RequestPolicy, requestWithRetry } from './call.ts';
import { ContractError, OutcomeUnknownError } from './errors.ts';
import { bodyNote, explanationIn, toClientError } from './failures.ts';
import { coolDownAfter } from './rate-limit.ts';
import type { HttpResponse } from './response.ts';
import { createServiceState, type ServiceStateOptions } from './service-state.ts';

export type ClientOptions = Omit<RequestOptions, 'transport' | 'state' | 'isLocal'> &
  TransportOptions &
  ServiceStateOptions & {
    /** The base URL has no trailing slash, for example `https://api.example.com/v1`. */
    baseUrl: string;
    /** The API key. If it is empty, requests have no Authorization header. */
    key: string;
    userAgent: string;
  };

type CallOptions = Partial<Pick<RequestPolicy, 'ignorePause' | 'sendLog'>> & {
  /** Replaces the URL of the operation. The origin must stay the same, because the request contains the API key. */
  url?: URL;
  /** The Idempotency-Key of a creation, random by default. All attempts of a call send the same key. */
  idempotencyKey?: string;
};

export type Client = ReturnType<typeof createClient>;

/** Calls the operations of the service, with retries (docs/client-behavior.md). */
export function createClient(options: ClientOptions) {
  const transport = createTransport(options);
  const state = createServiceState(options, options);
  const closing = new AbortController();
  const signal = AbortSignal.any([options.signal, closing.signal]);
  // Each request in flight adds a listener to the signal; Node would warn about more than ten.
  setMaxListeners(0, signal);
  const isLocal = LOOPBACK_NAME_PATTERN.test(new URL(options.baseUrl).hostname);

  /**
   * Sends a request. The caller calls `parse` for the body, and can send the next request first. `parse` throws a
   * ContractError for an invalid body, or for a creation an OutcomeUnknownError.
   *
   * @throws ClientError (see its subclasses), InterruptedError, or the error of `sendLog`
   */
  async function request<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    callOptions: CallOptions = {},
  ) {
    const { ignorePause = false, sendLog } = callOptions;
    const operation: Operation = operations[name];
    const idempotencyKey = operation.acceptsIdempotencyKey && (callOptions.idempotencyKey ?? randomUUID());
    const body = operation.body && (input as { body?: unknown }).body;
    // Some services confirm a creation with another 2xx status. A 202 only promises that the creation will happen.
    const isSuccess = (status: number) =>
      status === operation.success.status ||
      (operation.method === 'POST' && status >= 200 && status <= 299 && status !== 202);
    const url = callOptions.url ?? operationUrl(options.baseUrl, operation, input);
    const { outcome, ambiguous } = await requestWithRetry(
      { ...options, isLocal, transport, state, signal },
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
    const { status, headers } = response;
    if (!isSuccess(status)) {
      const now = options.clock.now();
      const until = now + (coolDownAfter(response, now) ?? 0);
      throw failed(toClientError(operation, response, until), ambiguous);
    }
    const parse = (): OperationOutput<Name> => {
      try {
        const value = parseBody(operation, response);
        if (operation.method === 'POST') checkName(body as NewPet, value as ReceivedPet, status);
        return value as OperationOutput<Name>;
      } catch (error) {
        // The status shows that a creation was applied, but the response does not show what was created.
        throw error instanceof ContractError ? failed(error, true) : error;
      }
    };
    return { parse, headers, url };

    function failed(error: Error, isAmbiguous: boolean): Error {
      if (!isAmbiguous || idempotencyKey === undefined) return error;
      const supportsIdempotency = state.supportsIdempotency();
      return new OutcomeUnknownError(error, { idempotencyKey, supportsIdempotency });
    }
  }

  return {
    baseUrl: options.baseUrl,
    /** Whether the service has shown that it supports Idempotency-Key, which makes it safe to retry a creation. */
    supportsIdempotency: state.supportsIdempotency,
    request,
    /** Like `request`, with the same errors, but parses the body. */
    async call<Name extends OperationName>(
      name: Name,
      input: OperationInput<Name>,
      callOptions?: CallOptions,
    ) {
      const { parse, headers } = await request(name, input, callOptions);
      return { value: parse(), headers };
    },
    /** Interrupts requests that have not finished, and closes all connections. */
    close(): Promise<void> {
      closing.abort(new InterruptedError());
      return transport.close();
    },
  };
}

/**
 * Parses and validates the body of a successful response. Animals that the specification does not allow are kept as
 * received if they have an id and a name. @throws ContractError for any other body
 */
function parseBody({ success }: Operation, response: HttpResponse): unknown {
  const { status, body, unreadable } = response;
  const refuse = (reason: string, options?: ErrorOptions) =>
    new ContractError(status, `unexpected response: ${reason}`, options);
  if (unreadable !== undefined) throw refuse(unreadable);
  let value: unknown;
  try {
    value = parseJson(body);
  } catch (cause) {
    throw refuse(`HTTP status ${status}, not JSON that pets can read${bodyNote(response)}`, { cause });
  }
  // First the specification, which also sets the types of the fields.
  const exact = z.safeParse(success.body, value);
  if (exact.success) return exact.data;
  const received = z.safeParse(success.received, value);
  if (received.success) return received.data;
  const reason = explanationIn(value);
  throw refuse(`${describeIssues(received.error)}${reason ? ` (${reason})` : ''}`);
}

/** The name without what a service may change: Unicode normalization, spaces around it, and case. */
export const nameKey = ({ name }: { name: string }) => name.normalize().trim().toUpperCase().toLowerCase();

/** @throws ContractError if the response to a creation is about an animal with another name */
function checkName(sent: NewPet, received: ReceivedPet, status: number): void {
  if (nameKey(sent) === nameKey(received)) return;
  const names = `${JSON.stringify(received.name)} instead of ${JSON.stringify(sent.name)}`;
  throw new ContractError(status, `unexpected response: an animal with the name ${names}`);
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
