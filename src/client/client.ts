import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import * as z from 'zod/mini';
import {
  type Operation,
  type OperationInput,
  type OperationName,
  type OperationOutput,
  operations,
} from '../contract/api.ts';
import { encodeIdempotencyKey, header, LOOPBACK_NAME_PATTERN } from '../contract/headers.ts';
import { describeIssues, parseJson, stringifyJson } from '../contract/json.ts';
import { mayHaveStatus, type NewPet, type ReceivedPet } from '../contract/schemas.ts';
import { InterruptedError } from '../system/clock.ts';
import { createTransport, type TransportOptions } from './attempt.ts';
import { type RequestOptions, type RequestPolicy, requestWithRetry } from './call.ts';
import { bodyNote, ContractError, explanationIn, OutcomeUnknownError, toClientError } from './errors.ts';
import { coolDownAfter } from './rate-limit.ts';
import { findLink, type HttpHeaders, type HttpResponse, readHeader } from './response.ts';
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

/** Creates a client that calls the operations of the service, with retries (docs/client-behavior.md). */
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
    if ('error' in outcome) throw outcomeError(outcome.error, ambiguous);
    const { response } = outcome;
    const { status, headers } = response;
    if (!isSuccess(status)) {
      const now = options.clock.now();
      const until = now + (coolDownAfter(response, now) ?? 0);
      throw outcomeError(toClientError(operation, response, until), ambiguous);
    }
    const parse = (): OperationOutput<Name> => {
      try {
        const value = parseBody(operation, response);
        if (operation.method === 'POST') checkName(body as NewPet, value as ReceivedPet, status);
        return value as OperationOutput<Name>;
      } catch (error) {
        // The status shows that a creation was applied, but the response does not show what was created.
        throw error instanceof ContractError ? outcomeError(error, true) : error;
      }
    };
    return { parse, headers, url };

    function outcomeError(error: Error, isAmbiguous: boolean): Error {
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
 * received if they have an id and a name. @throws ContractError for any other invalid body
 */
function parseBody({ success }: Operation, response: HttpResponse): unknown {
  const { status, body, unreadable } = response;
  const contractError = (reason: string, options?: ErrorOptions) =>
    new ContractError(status, `unexpected response: ${reason}`, options);
  if (unreadable !== undefined) throw contractError(unreadable);
  let value: unknown;
  try {
    value = parseJson(body);
  } catch (cause) {
    throw contractError(`HTTP status ${status}, not JSON that pets can read${bodyNote(response)}`, { cause });
  }
  // First try the schema of the specification, which also converts the fields to their types.
  const exact = z.safeParse(success.body, value);
  if (exact.success) return exact.data;
  const received = z.safeParse(success.received, value);
  if (received.success) return received.data;
  const reason = explanationIn(value);
  throw contractError(`${describeIssues(received.error, 'the body')}${reason ? ` (${reason})` : ''}`);
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

/** `more`: whether more animals follow. `unknown`: the page is full, but no page has had a Link header. */
export type PetPage = { pets: ReceivedPet[]; more: 'yes' | 'no' | 'unknown' };

type Query = OperationInput<'listPets'>['query'];

/**
 * Lists animals page by page, following `Link: …; rel="next"` (docs/service.md, D1). Animals with another status than
 * `query.status` are left out, because some services ignore that parameter.
 *
 * @param canPrefetch decides, when a page arrives, whether to request the next page before parsing this page. An error of
 *   a prefetched page is thrown only when the caller asks for that page.
 * @throws ClientError, for example a ContractError if the path of a link is not below that of the base URL, or
 *   InterruptedError
 */
export async function* listPages(
  client: Client,
  query: Query & { limit: number },
  canPrefetch: () => boolean = () => false,
): AsyncGenerator<PetPage> {
  const request = (url?: URL) => {
    const response = client.request('listPets', { query }, url && { url });
    // If the caller never consumes this page, an error of the page must not become an unhandled rejection.
    response.catch(() => {});
    return response;
  };
  const base = new URL(`${client.baseUrl}/`);
  const seen = new Set<string>();
  let hasLinks = false;
  let nextResponse = request();
  for (;;) {
    const { url, headers, parse } = await nextResponse;
    seen.add(url.href);
    const next = nextPage(headers, url, base, seen);
    const prefetched = next instanceof URL && canPrefetch() ? request(next) : undefined;
    if (prefetched) await untilRequestWritten();
    const pets = parse();
    hasLinks ||= readHeader(headers, 'Link') !== undefined;
    // More animals may follow a full page of a service that sends no links at all.
    const more = next ? 'yes' : !hasLinks && pets.length >= query.limit ? 'unknown' : 'no';
    const { status } = query;
    yield { pets: status ? pets.filter((pet) => mayHaveStatus(pet, [status])) : pets, more };
    if (next === undefined) return;
    if (next instanceof ContractError) throw next;
    nextResponse = prefetched ?? request(next);
  }
}

/**
 * The URL of the next page, undefined without a link, or why the link is not followed. A service behind a proxy may link to
 * its internal address, but the API key must not be sent to another origin. So a link below the path of the base URL gets
 * the origin of the current page. `base` is the base URL with a final slash.
 */
function nextPage(
  headers: HttpHeaders,
  page: URL,
  base: URL,
  seen: ReadonlySet<string>,
): URL | ContractError | undefined {
  const target = findLink(headers, 'next');
  if (target === undefined) return undefined;
  const linkError = (reason: string) =>
    new ContractError(200, `the link to the next page leads to ${reason}, so it was not followed`);
  if (!URL.canParse(target, page.href)) return linkError(`${target}, which is not a URL`);
  const link = new URL(target, page);
  if (!link.pathname.startsWith(base.pathname))
    return linkError(`${link.href}, outside ${base.href} (a proxy may have changed the path)`);
  const next = new URL(page.origin + link.pathname + link.search);
  return seen.has(next.href) ? linkError('an earlier page') : next;
}

/** Lets undici write the latest request if a connection is idle, so that parsing the current page does not delay it. */
const untilRequestWritten = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
