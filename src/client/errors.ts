import { getSystemErrorMap } from 'node:util';
import type { Operation } from '../contract/api.ts';
import { tryParseJson } from '../contract/json.ts';
import { type HttpResponse, readHeader } from './response.ts';

type ErrorDetails = ErrorOptions & { hint?: string | undefined };

/**
 * A call that failed. Distinguish failures by subclass and fields, never by message. The message need not name the host:
 * the command that called knows the host, the profile and the proxy, and adds them.
 */
export abstract class ClientError extends Error {
  /** The code for scripts: that of the service's error response, or one of the client's own. */
  abstract readonly code: string;
  /** What to do, if the cause of the failure shows it. */
  readonly hint: string | undefined;

  constructor(message: string, { hint, ...options }: ErrorDetails = {}) {
    super(message, options);
    this.name = new.target.name;
    this.hint = hint;
  }
}

/** The service returned an error (docs/service.md 7). */
export class ApiFailure extends ClientError {
  readonly status: number;
  readonly code: string;
  /** Whether the body has the form of an error of the API. If not, another server may have responded. */
  readonly isFromService: boolean;

  constructor(status: number, message: string, code?: string) {
    super(message);
    this.status = status;
    this.code = code ?? `http_${status}`;
    this.isFromService = code !== undefined;
  }
}

type NetworkDetails = ErrorDetails & {
  sent: boolean;
  code?: NetworkError['code'];
  errno?: string | undefined;
  isPermanent?: boolean;
};

/** No response arrived, or only a part of one. */
export class NetworkError extends ClientError {
  /**
   * `timeout` if the time limit of the attempt or of the command has passed. `local_error` if this machine is the cause:
   * too little memory, too many open files, or a bug.
   */
  readonly code: 'network_error' | 'timeout' | 'local_error';
  /** Whether the service may have received the request. */
  readonly sent: boolean;
  /** The error code of the system, of TLS or of undici, such as ECONNREFUSED; INCOMPLETE if `decodeBody` finds a cut body. */
  readonly errno: string | undefined;
  /** Whether another attempt would fail in the same way, as after a certificate error. */
  readonly isPermanent: boolean;

  constructor(message: string, { sent, code, errno, isPermanent = false, ...details }: NetworkDetails) {
    super(message, details);
    this.code = code ?? 'network_error';
    this.sent = sent;
    this.errno = errno;
    this.isPermanent = isPermanent;
  }
}

/** The response is not one that the contract allows. `status` is undefined if the response could not be read. */
export class ContractError extends ClientError {
  readonly code = 'contract_error';
  readonly status: number | undefined;

  constructor(status: number | undefined, message: string, details?: ErrorDetails) {
    super(message, details);
    this.status = status;
  }
}

/** The rate limit does not allow the call before `until`, in milliseconds since the epoch. */
export class RateLimitError extends ClientError {
  readonly code: string;
  readonly until: number;
  /** True if the last attempt got a 429. False if a pause that an earlier response started prevented an attempt. */
  readonly fromResponse: boolean;

  /** `response` has the error code and the explanation in the body of a 429. Without it, a pause prevented an attempt. */
  constructor(until: number, response?: { code?: string | undefined; reason?: string | undefined }) {
    super(response ? (response.reason ?? 'rate limit exceeded') : 'a rate limit or a ban');
    this.until = until;
    this.code = response?.code ?? 'rate_limited';
    this.fromResponse = response !== undefined;
  }
}

/**
 * A creation was sent, but no valid response shows whether it was applied. `cause` is the error that ended the call.
 * A retry with the same `idempotencyKey` is safe if the service supports it.
 */
export class OutcomeUnknownError extends ClientError {
  readonly code = 'outcome_unknown';
  readonly idempotencyKey: string;
  readonly supportsIdempotency: boolean;

  constructor(cause: unknown, options: { idempotencyKey: string; supportsIdempotency: boolean }) {
    super('the outcome is unknown', { cause });
    this.idempotencyKey = options.idempotencyKey;
    this.supportsIdempotency = options.supportsIdempotency;
  }
}

/** Whether an error is about a response with a success status. A retry with the same idempotency key would not help. */
export const hasSuccessStatus = (error: unknown): boolean =>
  error instanceof ContractError && error.status !== undefined && error.status >= 200 && error.status <= 299;

// Converts failures to errors with the words of the system, TLS or the service: first attempts without a response, then
// responses that do not mean success. A failure has a case of its own only if the client must handle it differently.

/** The words for a response whose body ends too early, at whatever layer that was noticed. */
export const INCOMPLETE_RESPONSE = 'the response is incomplete';

/** What Node, OpenSSL and undici add to errors. */
type LibraryError = NodeJS.ErrnoException & { reason?: string; data?: string; errors?: unknown[] };

/** The names and codes of errors that this machine causes, and not the network. */
const LOCAL_NAME = /^(Range|Type|Reference|Syntax|Compile|Link|Runtime|Assertion|InvalidArgument)Error$/;
const LOCAL_CODE = /^(ENOMEM|EMFILE|ENFILE)$/;
const LOCAL_HINT =
  'raise the memory limit (ulimit -v) or the limit of open files (ulimit -n) of the shell, batch job or container; with NODE_OPTIONS=--disable-wasm-trap-handler, Node reserves less memory; without such a limit, this is a bug: please report it';

/** The codes of TLS and of certificates, and those with which the parser of HTTP refuses a response. */
const PROTOCOL_CODE = /CERT|TLS|SSL|SIGNATURE|ISSUER|CRL|INVALID_|PATH_LENGTH|^UNSPECIFIED$|^EPROTO$|^HPE_/;

/** The hints for errors of TLS and of the parser of HTTP, by their code and message. The first match decides. */
const PROTOCOL_HINTS: readonly (readonly [error: RegExp, hint: string])[] = [
  [
    /wrong version number|packet length/,
    'the service does not use https at this port; check the port, or let the base URL begin with http://',
  ],
  [/ALTNAME/, 'use a host name of the certificate; if it has none, the service needs another certificate'],
  [
    /EXPIRED|NOT_YET_VALID/,
    'check the clock of this machine; if it is right, the certificate or its authority (see NODE_EXTRA_CA_CERTS) must be renewed',
  ],
  [
    /UNABLE_TO|SELF_SIGNED/,
    'to trust it, set NODE_EXTRA_CA_CERTS to a file with the root certificate of its authority as PEM, that is -----BEGIN CERTIFICATE-----; if that is set, the file has another root or form, or lacks an intermediate certificate',
  ],
  [/HTTPParserError|HPE_/, 'check the port of the base URL, and whether the URL must begin with https://'],
  [/^/, 'check the certificate and TLS of the service, which may be too old; https needs TLS 1.2 or newer'],
];

const HEADERS_HINT =
  'the service or a proxy sends too many or too long headers, such as cookies; to accept them, set NODE_OPTIONS=--max-http-header-size=65536';

/**
 * Converts the error of an attempt without a whole response. `sent`: whether the service may have received the request.
 *
 * @returns a ContractError if the headers of the response are too large, otherwise a NetworkError
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
  // If the connection ends inside a chunk, the error of the parser has no data: nothing that arrived was invalid.
  const isParser = name === 'HTTPParserError';
  const isCut = errno === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' || (isParser && cause.data === '');
  if (isCut) return new NetworkError(INCOMPLETE_RESPONSE, { errno, sent, cause });
  if (!isParser && !PROTOCOL_CODE.test(errno ?? '')) return new NetworkError(text, { errno, sent, cause });
  const [, hint] = PROTOCOL_HINTS.find(([pattern]) => pattern.test(`${name} ${errno} ${text}`)) ?? [];
  return new NetworkError(text, { errno, sent, isPermanent: true, hint, cause });
}

/** The innermost cause of an error. An AggregateError has an error for each address that was tried; the first one counts. */
function rootOf(error: LibraryError): LibraryError {
  const inner = error.errors?.[0] ?? error.cause;
  return inner instanceof Error ? rootOf(inner) : error;
}

function wordsFor({ syscall, code, errno = 0, reason, message }: LibraryError): string {
  if (syscall === 'getaddrinfo')
    return `${code === 'EAI_AGAIN' ? 'the name server does not respond' : 'host not found'} (${code})`;
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
    return new ContractError(404, reason === undefined ? message : `${reason} (404)`);
  return new ApiFailure(
    status,
    status >= 500 && reason !== undefined ? `${reason} (${status})` : message,
    code,
  );
}

/** Fields in which services explain an error, such as those of problem details (RFC 9457). */
const REASON_FIELDS = ['message', 'detail', 'title', 'error'] as const;

/** The explanation in a JSON value: the string, those in an array, or that in the first of `REASON_FIELDS` that has one. */
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
