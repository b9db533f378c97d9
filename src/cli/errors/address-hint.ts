import {
  ApiFailure,
  type NetworkError,
  PageAddressError,
  ProtocolError,
  RedirectError,
} from '../../client/errors.ts';
import {
  NOT_HTTPS,
  ONLY_HTTP2,
  OTHER_TLS_VERSION,
  systemReason,
  TLS_REFUSED,
  UNKNOWN_ISSUER,
} from '../core/errors.ts';
import { formatIso } from '../output/time.ts';
import { DEFAULT_PORT, isLoopbackUrl, portOf, proxyLabel } from '../profiles/profile.ts';
import type { CallError } from './call-error.ts';

/** What nginx, Go and Apache respond to a request without https at a port for https. */
const PLAIN_HTTP =
  /plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server|speaking plain HTTP/i;

/** What nginx responds to a client without a certificate. Most other servers end the connection instead. */
const NO_CERTIFICATE = /No required SSL certificate was sent/i;

const WITHOUT_CERTIFICATE = 'use an address that does not require one, or a local proxy that sends it';
const CERTIFICATE_REQUIRED = `pets cannot send a client certificate; ${WITHOUT_CERTIFICATE}`;
const CERTIFICATE_MAYBE_REQUIRED = `the service may require a client certificate, which pets cannot send; ${WITHOUT_CERTIFICATE}`;

/** The error codes of a connection that the peer closed. */
const CLOSED = ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'];

/** How a server answers that supports only HTTP/2: with a frame that has its settings. */
const HTTP2_SETTINGS = /^\0\0[\s\S]\x04/;

/** The hint for a response that shows what is wrong with the base URL; undefined for any other error. */
export function addressHint(error: unknown, { connection: { baseUrl } }: CallError): string | undefined {
  if (error instanceof PageAddressError) {
    return `the next page is ${error.url}, which is not below the base URL ${baseUrl}; a proxy probably changes paths. Use the base URL of the service itself, or let the service link to ${baseUrl}`;
  }
  if (error instanceof RedirectError) {
    const address = httpsAddress(baseUrl, error.location);
    return address && useBaseUrl(address);
  }
  if (error instanceof ApiFailure) {
    if (PLAIN_HTTP.test(error.message)) return useBaseUrl(withScheme('https', baseUrl));
    return NO_CERTIFICATE.test(error.message) ? CERTIFICATE_REQUIRED : undefined;
  }
  return undefined;
}

/** Describes a response that is not HTTP/1.1. */
function protocolReason({ received, message }: ProtocolError): string {
  if (HTTP2_SETTINGS.test(received)) return ONLY_HTTP2;
  const [line = ''] = received.split(/[\r\n]/);
  const isOther = /Expected HTTP\//.test(message);
  return isOther ? `it does not use HTTP (it sent ${JSON.stringify(line.slice(0, 80))})` : message;
}

/**
 * The hint for a failed connection, which may show what is wrong with the base URL, with TLS, or with the clock of this
 * machine. `now` is in milliseconds since the epoch.
 */
export function networkHint(
  error: NetworkError,
  { connection: { baseUrl, keySource }, proxy, ignoredProxy }: CallError,
  now: number,
): string {
  const { code = '', sent } = error;
  const url = new URL(baseUrl);
  const isNew = keySource === 'this login';
  if (code === 'CERT_NOT_YET_VALID') return `check the clock of this machine, which shows ${formatIso(now)}`;
  const reason = networkReason(error);
  if (reason === OTHER_TLS_VERSION)
    return 'the service, or a proxy in front of it, must support TLS 1.2 or newer';
  if (reason === ONLY_HTTP2) return 'use an address of the service that supports HTTP/1.1';
  if (reason === TLS_REFUSED) return CERTIFICATE_MAYBE_REQUIRED;
  if (reason === NOT_HTTPS && isLoopbackUrl(url)) return useBaseUrl(withScheme('http', baseUrl));
  // A closed connection has many causes. Suggest https or a client certificate only during login, when the base URL is
  // new.
  if (isNew && proxy === undefined && sent && CLOSED.includes(code)) {
    return url.protocol === 'http:'
      ? `if the service uses https, ${useBaseUrl(withScheme('https', baseUrl))}`
      : CERTIFICATE_MAYBE_REQUIRED;
  }
  if (url.protocol === 'http:' && isLoopbackUrl(url) && code === 'ECONNREFUSED') {
    const option = url.port === String(DEFAULT_PORT) ? '' : ` --port ${portOf(url)}`;
    return `is the local service running? Start it: pets serve${option}`;
  }
  if (reason === UNKNOWN_ISSUER)
    return 'if you trust that authority, set NODE_EXTRA_CA_CERTS to the file with its certificate';
  const via = proxy === undefined ? '' : `, the proxy ${proxyLabel(proxy)}`;
  return `check the network${via} and the base URL ${baseUrl}${ignoredProxyNote(ignoredProxy)}${isNew ? '; nothing was saved' : ''}`;
}

/** Describes why a request got no valid response. */
export const networkReason = (error: Error): string =>
  error instanceof ProtocolError ? protocolReason(error) : systemReason(error);

/** The end of a hint if the user has set a variable such as ALL_PROXY. */
export const ignoredProxyNote = (variable: string | undefined): string =>
  variable === undefined ? '' : `; ${variable} is not supported: set HTTPS_PROXY or HTTP_PROXY instead`;

const useBaseUrl = (address: string): string => `use the base URL ${address}`;

const withScheme = (scheme: 'http' | 'https', baseUrl: string): string => baseUrl.replace(/^\w+/, scheme);

/** The base URL with https, if a redirect changes http to https on the same host; undefined for other redirects. */
function httpsAddress(baseUrl: string, location: string | undefined): string | undefined {
  if (location === undefined || !URL.canParse(location, baseUrl)) return undefined;
  const [from, to] = [new URL(baseUrl), new URL(location, baseUrl)];
  const path = from.pathname.replace(/\/$/, '');
  const isSame = to.hostname === from.hostname && to.pathname.startsWith(`${path}/`);
  const isUpgrade = from.protocol === 'http:' && to.protocol === 'https:';
  return isSame && isUpgrade ? to.origin + path : undefined;
}
