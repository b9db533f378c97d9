import * as z from 'zod/mini';
import { header } from '../contract/headers.ts';
import { describeFirstIssue, describeIssues } from '../contract/issues.ts';
import { NestingError, parseJson, tryParseJson } from '../contract/json.ts';
import type { Operation } from '../contract/operations.ts';
import { ErrorBody } from '../contract/schemas.ts';
import {
  ApiFailure,
  type ClientError,
  ContractError,
  RateLimitError,
  RedirectError,
  RemovedError,
} from './errors.ts';
import { findLink, type HttpHeaders, parseHttpDate, readHeader } from './headers.ts';
import { explanationIn, type Redact, reasonIn, textOf } from './reason.ts';

/** `unreadable` is the reason why the body could not be decoded; `body` is then empty. */
export type HttpResponse = { status: number; headers: HttpHeaders; body: string; unreadable?: string };

export type ParsedBody = {
  value: unknown;
  /** How the value differs from the contract; undefined if it matches. */
  difference?: string;
};

/**
 * Parses and validates the body of a successful response. A value that does not match `success.body` may also match
 * `success.received`.
 *
 * @throws ContractError
 */
export function parseBody({ success }: Operation, response: HttpResponse, redact: Redact): ParsedBody {
  const { status, body, unreadable } = response;
  if (unreadable !== undefined) throw new ContractError(status, `unexpected response: ${unreadable}`);
  if (body === '')
    throw new ContractError(status, `unexpected response: HTTP status ${status} with an empty body`);
  let value: unknown;
  try {
    value = parseJson(body);
  } catch (cause) {
    const problem =
      cause instanceof NestingError ? `JSON ${cause.message}` : `not JSON${bodyNote(response, redact)}`;
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
 * What else is known about a response that does not mean success. `until` and `neededMaxWait` are for the RateLimitError of
 * a 429. `isRemoved` means that the date on which the service removes the operation has passed.
 */
type FailureContext = {
  until: number;
  neededMaxWait: number | undefined;
  isRemoved: boolean;
  redact: Redact;
};

/** Converts a response that does not mean success. */
export function toClientError(
  operation: Operation,
  response: HttpResponse,
  { until, neededMaxWait, isRemoved, redact }: FailureContext,
): ClientError {
  const { status, headers, body } = response;
  if ([301, 302, 303, 307, 308].includes(status))
    return new RedirectError(status, readHeader(headers, 'Location'));
  const error = parseErrorBody(response);
  const code = error?.code;
  const reason = error?.message ?? reasonIn(body, redact);
  if (status === 429) {
    const refusal = { code, reason: reason ?? textOf(body, redact) };
    return new RateLimitError(until, { response: refusal, neededMaxWait });
  }
  const message = reason ?? `HTTP status ${status}${bodyNote(response, redact)}`;
  // The operation itself never responds with 404, so the base URL is wrong.
  if (status === 404 && !operation.errors.includes(404))
    return new ContractError(404, reason === undefined ? message : `not found (404: ${reason})`);
  const text = reason ?? textOf(body, redact);
  if (status === 410 || (isRemoved && (status === 404 || status === 405)))
    return new RemovedError(status, { code, reason, text, message });
  if (status >= 400) return new ApiFailure(status, { code, reason, text, message });
  return new ContractError(status, `unexpected response: HTTP status ${status}${bodyNote(response, redact)}`);
}

/** The body of an error response; undefined if the body is not an `ErrorBody`. */
export function parseErrorBody(response: HttpResponse): ErrorBody | undefined {
  return z.safeParse(ErrorBody, tryParseJson(response.body)).data;
}

/** The type of a body that is not JSON, and the start of its text, for the end of an error message. */
function bodyNote({ headers, body }: HttpResponse, redact: Redact): string {
  const type = readHeader(headers, 'Content-Type')?.split(';')[0]?.trim();
  const note = type === undefined || /\bjson$/i.test(type) ? '' : ` (Content-Type: ${type})`;
  const text = textOf(body, redact);
  return text === undefined ? note : `${note}: ${text}`;
}

/** The date on which an operation will be removed and the page that describes this, if the response names them. */
export type Deprecation = { sunset: Date | undefined; link: string | undefined };

/** Reads the Deprecation, Sunset and Link headers (RFC 9745, RFC 8594); undefined if the operation is not deprecated. */
export function readDeprecation(headers: HttpHeaders): Deprecation | undefined {
  const sunset = readHeader(headers, header.sunset);
  const link = findLink(headers, 'deprecation');
  if ((sunset ?? link ?? readHeader(headers, header.deprecation)) === undefined) return undefined;
  const time = parseHttpDate(sunset ?? '');
  return { sunset: time === undefined ? undefined : new Date(time), link };
}
