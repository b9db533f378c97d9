import {
  ApiFailure,
  ContractError,
  NetworkError,
  NoResponseError,
  ProxyError,
  RedirectError,
} from '../../client/errors.ts';
import { formatIso } from '../output/time.ts';
import { isLoopbackUrl } from '../profiles/profile.ts';
import { type CallError, NOT_HTTPS, OTHER_TLS_VERSION, systemReason, TLS_REFUSED } from './errors.ts';

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

/**
 * The hint for an error that shows what is wrong with the base URL, with TLS, or with the clock of this machine;
 * undefined for any other error. `now` is in milliseconds since the epoch.
 */
export function addressHint(error: unknown, call: CallError, now: number): string | undefined {
  const { baseUrl } = call.connection;
  if (error instanceof RedirectError) {
    const address = httpsAddress(baseUrl, error.location);
    return address && useBaseUrl(address);
  }
  if (error instanceof ApiFailure) {
    if (PLAIN_HTTP.test(error.message)) return useBaseUrl(withScheme('https', baseUrl));
    return NO_CERTIFICATE.test(error.message) ? CERTIFICATE_REQUIRED : undefined;
  }
  if (error instanceof NetworkError && !(error instanceof ProxyError)) return networkHint(error, call, now);
  return undefined;
}

/** Whether a failed call shows that no request to the base URL can succeed, with any key. */
export function isAddressError(call: CallError, now: number): boolean {
  const { cause } = call;
  const isMissing = cause instanceof ContractError && cause.status >= 300;
  return cause instanceof NoResponseError || isMissing || addressHint(cause, call, now) !== undefined;
}

function networkHint(
  error: NetworkError,
  { connection: { baseUrl, keySource }, proxy }: CallError,
  now: number,
): string | undefined {
  const { code = '', sent } = error;
  const url = new URL(baseUrl);
  if (code === 'CERT_NOT_YET_VALID') return `check the clock of this machine, which shows ${formatIso(now)}`;
  const reason = systemReason(error);
  if (reason === OTHER_TLS_VERSION)
    return 'the service, or a proxy in front of it, must support TLS 1.2 or newer';
  if (reason === TLS_REFUSED) return CERTIFICATE_MAYBE_REQUIRED;
  if (reason === NOT_HTTPS && isLoopbackUrl(url)) return useBaseUrl(withScheme('http', baseUrl));
  // A closed connection has many causes. Suggest https or a client certificate only during login, when the base URL is
  // new.
  if (keySource !== 'this login' || proxy !== undefined || !sent || !CLOSED.includes(code)) return undefined;
  return url.protocol === 'http:'
    ? `if the service uses https, ${useBaseUrl(withScheme('https', baseUrl))}`
    : CERTIFICATE_MAYBE_REQUIRED;
}

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
