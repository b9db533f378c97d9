import * as z from 'zod/mini';
import { header } from '../contract/headers.ts';
import { describeIssues } from '../contract/issues.ts';
import { parseJson, tryParseJson } from '../contract/json.ts';
import type { Operation } from '../contract/operations.ts';
import { ErrorBody } from '../contract/schemas.ts';
import { ApiFailure, type ClientError, ContractError, RateLimitError } from './errors.ts';
import { parseHttpDate } from './http-date.ts';

/** The headers of a response; names are in lower case. */
export type HttpHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** `unreadable` is the reason why the body could not be decoded; `body` is then empty. */
export type HttpResponse = { status: number; headers: HttpHeaders; body: string; unreadable?: string };

/**
 * Parses and validates the body of a successful response.
 *
 * @throws ContractError
 */
export function parseBody(
  operation: Operation,
  { status, headers, body, unreadable }: HttpResponse,
): unknown {
  if (unreadable !== undefined) throw new ContractError(status, `unexpected response: ${unreadable}`);
  let value: unknown;
  try {
    value = parseJson(body);
  } catch (cause) {
    throw new ContractError(status, `unexpected response: not JSON${contentTypeNote(headers)}`, { cause });
  }
  const result = z.safeParse(operation.success.body, value);
  if (result.success) return result.data;
  throw new ContractError(status, `unexpected response: ${describeIssues(result.error)}`);
}

/** Converts a response without the operation's success status. `until` is when a call refused by 429 may be repeated. */
export function toClientError(operation: Operation, response: HttpResponse, until: number): ClientError {
  const { status, headers } = response;
  const error = parseErrorBody(response);
  if (status === 429) return new RateLimitError(until, { error });
  if ([301, 302, 303, 307, 308].includes(status)) {
    const location = readHeader(headers, 'Location');
    return new ContractError(
      status,
      `redirect${location ? ` to ${location}` : ''} was not followed (${status})`,
    );
  }
  // The operation itself never responds with 404, so the base URL is wrong.
  if (status === 404 && error && !operation.errors.includes(404)) {
    return new ContractError(404, `not found (404: ${error.message})`);
  }
  if (error || status >= 500 || status === 401 || status === 403) return new ApiFailure(status, error);
  return new ContractError(
    status,
    `unexpected response: HTTP status ${status} without a JSON error${contentTypeNote(headers)}`,
  );
}

/** The Error body of a response; undefined if it has none. */
export function parseErrorBody(response: HttpResponse): ErrorBody | undefined {
  return z.safeParse(ErrorBody, tryParseJson(response.body)).data;
}

/** Names the type of a response that is not JSON, for an error message. */
function contentTypeNote(headers: HttpHeaders): string {
  const type = readHeader(headers, 'Content-Type')?.split(';')[0]?.trim();
  return type === undefined || type === 'application/json' ? '' : ` (Content-Type: ${type})`;
}

/** The value of a header; the first one if it is repeated. */
export function readHeader(headers: HttpHeaders, name: string): string | undefined {
  return readHeaders(headers, name)[0];
}

/** All values of a header that may be repeated. */
export function readHeaders(headers: HttpHeaders, name: string): readonly string[] {
  const values = headers[name.toLowerCase()] ?? [];
  return typeof values === 'string' ? [values] : values;
}

/** The target of the first link with this relation, which is given in lower case (RFC 8288). */
export function findLink(headers: HttpHeaders, relation: string): string | undefined {
  const text = readHeaders(headers, header.link).join(', ');
  for (const [, target, parameters = ''] of text.matchAll(
    /<([^>]*)>((?:\s*;\s*[^,;="\s]+\s*=\s*(?:"[^"]*"|[^",;\s]+))*)/g,
  )) {
    const rel = /;\s*rel\s*=\s*(?:"([^"]*)"|([^",;\s]+))/i.exec(parameters);
    const relations = (rel?.[1] ?? rel?.[2] ?? '').toLowerCase().split(/\s+/);
    if (relations.includes(relation)) return target;
  }
  return undefined;
}

/** The date on which an operation will be removed and the page that describes this, if the response names them. */
export type Deprecation = { sunset: Date | undefined; link: string | undefined };

/** Reads the Deprecation, Sunset and Link headers (RFC 9745, RFC 8594); undefined if the operation is not deprecated. */
export function readDeprecation(headers: HttpHeaders, now: number): Deprecation | undefined {
  const sunset = readHeader(headers, header.sunset);
  const link = findLink(headers, 'deprecation');
  if ((sunset ?? link ?? readHeader(headers, header.deprecation)) === undefined) return undefined;
  const time = parseHttpDate(sunset ?? '', now);
  return { sunset: time === undefined ? undefined : new Date(time), link };
}
