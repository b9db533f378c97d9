import type { NetworkError } from '../../client/errors.ts';
import { DEFAULT_PORT } from '../default-port.ts';
import { isLoopback } from '../profiles/profile.ts';
import type { CallError } from './call-error.ts';
import { type Explanation, explanation } from './explanation.ts';

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was cut',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the host name could not be looked up',
  EHOSTUNREACH: 'the host is unreachable',
  ENETUNREACH: 'the network is unreachable',
  ETIMEDOUT: 'the connection timed out',
  EPIPE: 'the connection was cut',
  UND_ERR_SOCKET: 'the connection was cut',
  UND_ERR_CONNECT_TIMEOUT: 'the connection timed out',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  EPROTO: 'it does not speak https',
};

/** Certificates whose issuer nobody here knows: what a company's own authority signs. */
const UNKNOWN_ISSUER = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

const isUnknownIssuer = ({ code }: NetworkError): boolean => UNKNOWN_ISSUER.has(code ?? '');

/** A connection that failed: why, and where to look. */
export function explainNetwork(error: NetworkError, call: CallError): Explanation {
  const server = new URL(call.connection.baseUrl).host;
  return explanation('network_error', `cannot reach ${server}: ${networkReason(error)}`, {
    hint: networkHint(error, call),
  });
}

/** In words, where there are some. */
export function networkReason(error: NetworkError): string {
  const { code = '', message } = error;
  const [, refusal] = /^Proxy response \((\d+)\)/.exec(message) ?? [];
  if (refusal !== undefined) return `the proxy answered ${refusal}`;
  if (isUnknownIssuer(error)) return 'its certificate is signed by an authority that is not known here';
  if (code.startsWith('ERR_SSL_')) return 'it does not speak https';
  return REASONS[code] ?? message;
}

function networkHint(error: NetworkError, { connection: { baseUrl, keySource }, proxy }: CallError): string {
  const url = new URL(baseUrl);
  if (url.protocol === 'http:' && isLoopback(url) && error.code === 'ECONNREFUSED') {
    const port = url.port === String(DEFAULT_PORT) ? '' : ` --port ${url.port || '80'}`;
    return `is the local service running? Start it: pets serve${port}`;
  }
  if (isUnknownIssuer(error))
    return 'if that authority is your own, name its certificate: NODE_EXTRA_CA_CERTS=<file.pem>';
  const middle = proxy === undefined ? '' : `, the proxy ${proxy}`;
  const end = keySource === 'this login' ? '; nothing was saved' : '';
  return `check the network${middle}, and that ${baseUrl} is the right address${end}`;
}
