import { tryParseJson } from '../contract/json.ts';
import type { Operation } from '../contract/operations.ts';
import {
  ApiFailure,
  type ClientError,
  ContractError,
  LocalError,
  NetworkError,
  ProxyError,
  RateLimitError,
  RemovedError,
} from './errors.ts';
import { type HttpResponse, readHeader } from './response.ts';

// What went wrong, as an error with words and, if the cause shows one, a remedy: first for attempts without a response, and
// then for responses that do not mean success.

/** The words for a response whose body ends too early, at whatever layer that was noticed. */
export const INCOMPLETE = 'the response is incomplete';

/** Failures that a later attempt may not have. */
const TEMPORARY: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EADDRNOTAVAIL: 'this machine does not have this address',
  EAI_AGAIN: 'host name lookup failed',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ENOTFOUND: 'host not found',
  EPERM: 'operation not permitted',
  EPIPE: 'connection closed',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: INCOMPLETE,
  UND_ERR_SOCKET: 'connection closed',
};

const CERTIFICATE_TIME =
  'check the clock of this machine; if the clock is right, the service must replace its certificate';
const HTTP2 = {
  words: 'it supports only HTTP/2',
  hint: 'use an address of the service that supports HTTP/1.1',
};

/** Failures that every attempt has, by their error code: the first that matches counts. */
const PERMANENT: readonly { code: RegExp; words?: string; hint?: string }[] = [
  { code: /^CERT_HAS_EXPIRED$/, words: 'its certificate has expired', hint: CERTIFICATE_TIME },
  { code: /^CERT_NOT_YET_VALID$/, words: 'its certificate is not valid yet', hint: CERTIFICATE_TIME },
  { code: /ALTNAME_INVALID|PRX_TLS/, words: 'its certificate is for another host name' },
  {
    code: /SELF_SIGNED|^UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)/,
    words: 'its certificate is signed by an unknown authority',
    hint: 'if you trust that authority, set NODE_EXTRA_CA_CERTS to the file with its certificate',
  },
  {
    code: /^ERR_SSL_.*(PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|WRONG_SSL_VERSION)/,
    words: 'it does not support any version of TLS that pets accepts',
    hint: 'the service, or a proxy in front of it, must support TLS 1.2 or newer',
  },
  { code: /^ERR_SSL_.*NO_APPLICATION_PROTOCOL/, ...HTTP2 },
  // Only a peer that uses TLS can send an alert.
  {
    code: /^ERR_SSL_.*_ALERT_/,
    words: 'it refused the TLS connection',
    hint: 'the service may require HTTP/2 or a client certificate, which pets does not support; use an address that does not require them, or a local proxy',
  },
  {
    code: /^EPROTO$|^ERR_SSL_/,
    words: 'it does not use https',
    hint: 'if the service uses plain http, begin its base URL with http://',
  },
  { code: /CERT|TLS|SSL|SIGNATURE|ISSUER|CRL|INVALID_|PATH_LENGTH/ },
];

/** The names of errors that no network causes. */
const LOCAL = /^(Range|Type|Reference|Syntax|Compile|Link|Runtime|Assertion|InvalidArgument)Error$/;

/**
 * Converts the error of an attempt that got no response. `sent` is true if the service may have received the request.
 *
 * @returns a LocalError if this machine is the cause, a ContractError if Node refused the headers, or a NetworkError
 */
export function describeFault(cause: Error & { data?: string }, sent: boolean): ClientError {
  const errno = errorCodeOf(cause);
  const text = cause.message || String(errno ?? cause);
  const local = localFault(cause, errno, text);
  // Undici uses this code if it refuses to send a request.
  const wasSent = sent && errno !== 'UND_ERR_INVALID_ARG';
  if (local) return new LocalError(local.words, { hint: local.hint, sent: wasSent, cause });
  if (errno === 'UND_ERR_HEADERS_OVERFLOW')
    return new ContractError(undefined, 'unexpected response: its headers are larger than Node accepts', {
      hint: 'the service or a proxy sends too many or too long headers, such as cookies; to accept them, set NODE_OPTIONS=--max-http-header-size=65536',
      cause,
    });
  const temporary = TEMPORARY[errno ?? ''] ?? (isCutResponse(cause) ? INCOMPLETE : undefined);
  if (temporary) return new NetworkError(temporary, { errno, sent, cause });
  if (cause.name === 'HTTPParserError') {
    const { words, hint } = protocolFault(cause.data ?? '', text);
    return new NetworkError(words, { hint, sent: true, isPermanent: true, cause });
  }
  const permanent = PERMANENT.find(({ code }) => code.test(errno ?? ''));
  return new NetworkError(permanent?.words ?? text, {
    errno,
    sent,
    hint: permanent?.hint,
    isPermanent: permanent !== undefined,
    cause,
  });
}

/** The error of a proxy that could not be reached, or that has closed the connection. */
export function proxyFault(cause: Error): ClientError {
  const fault = describeFault(cause, false);
  if (!(fault instanceof NetworkError)) return fault;
  const { message, errno, isPermanent } = fault;
  return new ProxyError(message, { errno, isPermanent, cause });
}

function localFault(cause: Error, errno: string | undefined, text: string) {
  if (errno === 'EMFILE' || errno === 'ENFILE')
    return {
      words: 'too many files and connections are open',
      hint: 'raise the limit, for example with ulimit -n 1024, or end other programs',
    };
  const isLocal = LOCAL.test(cause.name);
  if (errno === 'ENOMEM' || (isLocal && /memory|allocat/i.test(text)))
    return {
      words: `not enough memory (${text})`,
      hint: 'raise the memory limit of the shell (ulimit -v), batch job or container; or set NODE_OPTIONS=--disable-wasm-trap-handler, with which Node reserves less',
    };
  if (!isLocal) return undefined;
  return {
    words: `unexpected error: ${text}`,
    hint: 'this is a bug; please report it with the output of the same command with --debug',
  };
}

/** Whether the connection ended inside a chunk. The parser then has nothing left that could be invalid. */
const isCutResponse = ({ name, data }: Error & { data?: string }): boolean =>
  name === 'HTTPParserError' && data === '';

/** Describes a response that is not HTTP/1.1. `received` is the part that is not valid. */
function protocolFault(received: string, text: string): { words: string; hint?: string } {
  // A server that supports only HTTP/2 responds with a frame with its settings.
  if (/^\0\0[\s\S]\x04/.test(received)) return HTTP2;
  const [line = ''] = received.split(/[\r\n]/);
  // The parser gives its errors no codes.
  const isOther = /Expected HTTP\//.test(text);
  return { words: isOther ? `it does not use HTTP (it sent ${JSON.stringify(line.slice(0, 80))})` : text };
}

/** The code of an error, or of an error inside it. An AggregateError contains one error per address tried. */
function errorCodeOf(error: unknown): string | undefined {
  const { code, errors, cause } = Object(error) as { code?: unknown; errors?: unknown[]; cause?: unknown };
  if (typeof code === 'string') return code;
  return [...(errors ?? []), ...(cause ? [cause] : [])].map(errorCodeOf).find((inner) => inner !== undefined);
}

/** What an error needs besides the response: `isRemoved` is true after the date on which the operation is removed. */
type ErrorContext = Pick<RateLimitError, 'until' | 'neededMaxWait'> & {
  isRemoved: boolean;
  redact: Redact;
};

/** Converts a response that does not mean success to an error. */
export function toClientError(
  operation: Operation,
  received: HttpResponse,
  { isRemoved, redact, ...wait }: ErrorContext,
): ClientError {
  const response = redacted(received, redact);
  const { status, headers, body } = response;
  if ([301, 302, 303, 307, 308].includes(status)) {
    // Not followed, because the key must not be sent to another server.
    const location = readHeader(headers, 'Location');
    return new ContractError(
      status,
      `redirect${location ? ` to ${location}` : ''} was not followed (${status})`,
    );
  }
  const json = tryParseJson(body);
  const isPage = /^\s*</.test(body);
  const explanation = explanationIn(json ?? (isPage ? '' : textOf(body)));
  const reason = explanation ?? textOf(body);
  const { code } = response;
  if (status === 429)
    return new RateLimitError(wait.until, { ...wait, response: { code, reason: explanation } });
  const message = explanation ?? `HTTP status ${status}${bodyNote(response)}`;
  // The operation itself never responds with 404, so the base URL is wrong.
  if (status === 404 && !operation.errors.includes(404))
    return new ContractError(404, explanation === undefined ? message : `not found (404: ${explanation})`);
  if (status < 400)
    return new ContractError(status, `unexpected response: HTTP status ${status}${bodyNote(response)}`);
  const gone = status === 410 || (isRemoved && (status === 404 || status === 405));
  const text = status >= 500 && explanation !== undefined ? `${explanation} (${status})` : message;
  return new (gone ? RemovedError : ApiFailure)(status, text, { code, reason });
}

/** Removes the API key from a text. Used before a text is cut, because a part of a key would not be recognized. */
export type Redact = (text: string) => string;

export const redacted = (response: HttpResponse, redact: Redact): HttpResponse => ({
  ...response,
  body: redact(response.body),
});

/** Fields in which services explain an error, such as those of problem details (RFC 9457). */
const REASON_FIELDS = ['message', 'detail', 'title', 'error'] as const;

/** `textOf` returns at most this many characters of a body, and an ellipsis. */
const MAX_TEXT = 200;

/** `textOf` searches only this many characters of a body for text. */
const MAX_SEARCHED = 8_192;

const MARKUP = /<!--.*?-->|<(script|style|title)\b.*?<\/\1\s*>|<\/?[a-z][^>]*>|<!doctype[^>]*>/gis;

/** The explanation in a JSON value: a string, the joined explanations of an array, or the first of `REASON_FIELDS`. */
export function explanationIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value.trim() || undefined;
  if (Array.isArray(value)) return value.map(explanationIn).filter(Boolean).join('; ') || undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = value as Record<string, unknown>;
  return REASON_FIELDS.map((name) => explanationIn(fields[name])).find((text) => text !== undefined);
}

/** The end of an error message: the type of the body, unless it is JSON, and the start of its text. */
export function bodyNote({ headers, body }: HttpResponse): string {
  const type = readHeader(headers, 'Content-Type')?.split(';')[0]?.trim();
  const note = type === undefined || /\bjson$/i.test(type) ? '' : ` (Content-Type: ${type})`;
  const text = textOf(body);
  return text === undefined ? note : `${note}: ${text}`;
}

/** The start of the text in a body, on one line and without the markup of a web page; undefined if there is no text. */
function textOf(body: string): string | undefined {
  const start = body.slice(0, MAX_SEARCHED);
  const text = start.replace(MARKUP, ' ');
  const characters = Array.from(text.replace(/\s+/g, ' ').trim());
  // JSON such as `{}` says nothing.
  if (/^([[{] ?[\]}]|null|"")$/.test(characters.slice(0, 5).join(''))) return undefined;
  if (characters.length <= MAX_TEXT) return characters.join('') || undefined;
  return `${characters.slice(0, MAX_TEXT).join('')}…`;
}
