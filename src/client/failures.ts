import { getSystemErrorMap } from 'node:util';
import { tryParseJson } from '../contract/json.ts';
import type { Operation } from '../contract/operations.ts';
import { ApiFailure, type ClientError, ContractError, NetworkError, RateLimitError } from './errors.ts';
import { type HttpResponse, readHeader } from './response.ts';

// Converts failures to errors with the words of the system, TLS or the service: first attempts without a response, then
// responses that do not mean success. A failure has a case of its own only if the client must handle it differently.

/** The words for a response whose body ends too early, at whatever layer that was noticed. */
export const INCOMPLETE_RESPONSE = 'the response is incomplete';

/** What Node, OpenSSL and undici add to errors. */
type LibraryError = NodeJS.ErrnoException & { reason?: string; data?: string; errors?: unknown[] };

/** The names and codes of errors that no network causes. */
const LOCAL_NAME = /^(Range|Type|Reference|Syntax|Compile|Link|Runtime|Assertion|InvalidArgument)Error$/;
const LOCAL_CODE = /^(ENOMEM|EMFILE|ENFILE)$/;
const LOCAL_HINT =
  'raise the memory limit (ulimit -v) or the limit of open files (ulimit -n) of the shell, batch job or container; with NODE_OPTIONS=--disable-wasm-trap-handler, Node reserves less memory; without such a limit, this is a bug: please report it';

/** The codes of TLS and of certificates, and those with which the parser of HTTP refuses a response. */
const PROTOCOL_CODE = /CERT|TLS|SSL|SIGNATURE|ISSUER|CRL|INVALID_|PATH_LENGTH|^EPROTO$|^HPE_/;

const HEADERS_HINT =
  'the service or a proxy sends too many or too long headers, such as cookies; to accept them, set NODE_OPTIONS=--max-http-header-size=65536';

/**
 * Converts the error of an attempt that got no response. `sent` is true if the service may have received the request.
 *
 * @returns a ContractError if Node refused the headers, otherwise a NetworkError
 */
export function toAttemptError(error: Error, sent: boolean): ClientError {
  const cause = rootOf(error);
  const { code: errno, name } = cause;
  const text = wordsFor(cause);
  if (LOCAL_NAME.test(name) || LOCAL_CODE.test(errno ?? '')) {
    const details = { code: 'local_error', errno, sent, isPermanent: true, hint: LOCAL_HINT, cause } as const;
    return new NetworkError(`this machine prevented the request (${text})`, details);
  }
  if (errno === 'UND_ERR_HEADERS_OVERFLOW') {
    const message = 'unexpected response: its headers are larger than Node accepts';
    return new ContractError(undefined, message, { hint: HEADERS_HINT, cause });
  }
  // If the connection ends inside a chunk, the parser has nothing left that could be invalid.
  const isParser = name === 'HTTPParserError';
  const isCut = errno === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' || (isParser && cause.data === '');
  if (isCut) return new NetworkError(INCOMPLETE_RESPONSE, { errno, sent, cause });
  const isPermanent = isParser || PROTOCOL_CODE.test(errno ?? '');
  return new NetworkError(text, { errno, sent, isPermanent, cause });
}

/** The innermost cause of an error. An AggregateError has an error for each address that was tried; the first one counts. */
function rootOf(error: LibraryError): LibraryError {
  const inner = error.errors?.[0] ?? error.cause;
  return inner instanceof Error ? rootOf(inner) : error;
}

function wordsFor({ syscall, code, errno = 0, reason, message }: LibraryError): string {
  if (syscall === 'getaddrinfo') return `host not found (${code})`;
  const [, words] = getSystemErrorMap().get(errno) ?? [];
  return words ?? reason ?? (message || String(code));
}

/** Converts a response that does not mean success. `until` is the end of the rate limit after a 429. */
export function toClientError(operation: Operation, response: HttpResponse, until: number): ClientError {
  const { status, headers, body, code } = response;
  if (status < 400) {
    // A redirect is not followed, because the key must not be sent to another server.
    const location = readHeader(headers, 'Location');
    const message = location ? `redirect to ${location} was not followed` : 'unexpected response';
    return new ContractError(status, `${message}: HTTP status ${status}`);
  }
  const reason = explanationIn(tryParseJson(body) ?? firstLine(body));
  if (status === 429) return new RateLimitError(until, { code, reason });
  const message = reason ?? `HTTP status ${status}${bodyNote(response)}`;
  // The operation itself never responds with 404, so the base URL is wrong.
  if (status === 404 && !operation.errors.includes(404))
    return new ContractError(404, reason === undefined ? message : `not found (404: ${reason})`);
  return new ApiFailure(
    status,
    status >= 500 && reason !== undefined ? `${reason} (${status})` : message,
    code,
  );
}

/** Fields in which services explain an error, such as those of problem details (RFC 9457). */
const REASON_FIELDS = ['message', 'detail', 'title', 'error'] as const;

/** The explanation in a JSON value: a string, the joined explanations of an array, or the first of `REASON_FIELDS`. */
export function explanationIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value.trim() || undefined;
  if (Array.isArray(value)) return value.map(explanationIn).filter(Boolean).join('; ') || undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = value as Record<string, unknown>;
  return REASON_FIELDS.map((name) => explanationIn(fields[name])).find((text) => text !== undefined);
}

/** The end of an error message: the type of the body, unless it is JSON, and its first line. */
export function bodyNote({ headers, body }: HttpResponse): string {
  const type = readHeader(headers, 'Content-Type')?.split(';')[0]?.trim();
  const note = type === undefined || /\bjson$/i.test(type) ? '' : ` (Content-Type: ${type})`;
  const line = firstLine(body);
  return line === undefined ? note : `${note}: ${line}`;
}

/** The first line of a body; undefined if it is the markup of a page, or says nothing, as `{}` does. */
function firstLine(body: string): string | undefined {
  const [line = ''] = body.trim().split(/\r?\n/, 1);
  return /^(<.*|[[{]? ?[\]}]?|null|"")$/.test(line) ? undefined : line;
}
