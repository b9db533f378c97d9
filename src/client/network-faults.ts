import { type ClientError, ContractError, LocalError, NetworkError, ProxyError } from './errors.ts';

// Why an attempt got no response: each kind of failure in words, with its remedy if the cause shows one.

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
  if (local) return new LocalError(local.words, { hint: local.hint, sent, cause });
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
export function errorCodeOf(error: unknown): string | undefined {
  const { code, errors, cause } = Object(error) as { code?: unknown; errors?: unknown[]; cause?: unknown };
  if (typeof code === 'string') return code;
  return [...(errors ?? []), ...(cause ? [cause] : [])].map(errorCodeOf).find((inner) => inner !== undefined);
}
