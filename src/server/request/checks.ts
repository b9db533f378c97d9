import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, SocketAddress } from 'node:net';
import { errorCodes } from '../../contract/api.ts';
import { HOST_NAME_PATTERN, LOOPBACK_NAME_PATTERN } from '../../contract/headers.ts';
import { ipVersionOf } from '../../system/address-blocks.ts';
import { invalidRequest, ServiceError } from '../errors.ts';

/**
 * Rejects transfer codings other than chunked, which Node's parser partly accepts: a proxy may see another end of the body.
 *
 * @throws ServiceError 400
 */
export function checkTransferCoding({ headers }: IncomingMessage): void {
  const coding = headers['transfer-encoding'];
  if (coding === undefined || coding.toLowerCase() === 'chunked') return;
  throw invalidRequest('The only supported Transfer-Encoding is chunked');
}

/** Rejects every expectation except `100-continue` (RFC 9110, 10.1.1). @throws ServiceError 417 */
export function checkExpectation({ headers: { expect } }: IncomingMessage): void {
  if (expect === undefined || expect.toLowerCase() === '100-continue') return;
  throw new ServiceError('expectation_failed', 'The only supported expectation is Expect: 100-continue');
}

/**
 * Whether a browser has sent a request for a page of another origin, such as another port of this machine. Browsers report
 * this in `Sec-Fetch-Site`; over plain HTTP beyond loopback, at most in `Origin`. Other clients usually send neither.
 * `publicUrl` is the URL of the service as a reverse proxy offers it.
 */
export function isOfOtherOrigin({ headers }: IncomingMessage, publicUrl: string | undefined): boolean {
  const { 'sec-fetch-site': site, origin, host } = headers;
  if (site !== undefined) return site !== 'none' && site !== 'same-origin';
  const sentBy = origin?.replace(/^https?:\/\//, '');
  if (sentBy === undefined || sentBy === host) return false;
  return publicUrl === undefined || sentBy !== new URL(publicUrl).host;
}

const MAX_ORIGIN = 200;

/**
 * The origin of the page that sent a request; undefined if that is the service's own or one in `cors`, or if no page of another
 * origin sent it. `unknown` if any website can have sent it, because nothing names the page: the bytes are not HTTP, the Host
 * is wrong, or the browser sent no Origin.
 */
export function foreignOrigin(
  request: IncomingMessage,
  status: number,
  { cors = [], publicUrl }: { cors?: readonly string[] | undefined; publicUrl?: string | undefined },
): string | undefined {
  const { method, headers } = request;
  if (!method || status === errorCodes.misdirected_request) return 'unknown';
  if (!isOfOtherOrigin(request, publicUrl)) return undefined;
  const { origin = 'unknown' } = headers;
  const isAllowed = cors.includes('*') || cors.includes(origin);
  return isAllowed ? undefined : origin.slice(0, MAX_ORIGIN);
}

const PORT = /:\d{1,5}$/;

// `createAddressMatcher` would call `isIP`, and Node 20 would compile its regular expressions, which takes milliseconds.
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Whether a valid IP address, in any notation, is a loopback address. */
export const isLoopbackAddress = (address: string): boolean => LOOPBACK.check(address, ipVersionOf(address));

/**
 * The names that a Host header may have besides loopback names, in lower case; undefined if every name is allowed.
 * `host` is the configured host, `address` is its IP address, and `more` has additional names. The host of `publicUrl`
 * is allowed too. On loopback, the names are always limited, so that a website whose name was bound to this machine
 * (DNS rebinding) cannot use the service. On other addresses, they are limited only if `more` is not empty.
 */
export function allowedHosts(
  { host, address }: { host: string; address: string },
  more: readonly string[],
  publicUrl?: string,
): ReadonlySet<string> | undefined {
  if (!isLoopbackAddress(address) && more.length === 0) return undefined;
  const bound = host.includes(':') ? `[${host}]` : host;
  // Allow the host as it was configured, and as clients spell the host after parsing a URL.
  const names = [bound, new URL(`http://${bound}`).hostname, ...more];
  if (publicUrl !== undefined) names.push(new URL(publicUrl).hostname);
  return new Set(names.map((name) => name.toLowerCase()));
}

/**
 * Checks the host of a request (docs/service.md 10; RFC 9112, 3.2): that of its target if that is absolute (`targetHost`),
 * which then replaces the Host header. Loopback names, the names in `allowed`, and the address on which the connection
 * arrived are allowed; if `allowed` is undefined, every name. The port does not matter. HTTP/1.0 needs no Host header.
 *
 * @throws ServiceError 400 if the header is missing or repeated, or a host is malformed; 421 if the name is not allowed
 */
export function checkHost(
  request: IncomingMessage,
  targetHost: string | undefined,
  allowed: ReadonlySet<string> | undefined,
): void {
  const { headers, httpVersion, socket } = request;
  if (headers.host === undefined && httpVersion !== '1.0') throw invalidHost();
  // Node joins repeated headers with a comma, so they have no valid name.
  let name = headers.host === undefined ? undefined : nameOf(headers.host);
  if (targetHost !== undefined) {
    name = nameOf(targetHost);
    headers.host = targetHost;
  }
  if (name === undefined || allowed === undefined || allowed.has(name)) return;
  if (LOOPBACK_NAME_PATTERN.test(name) || isSameAddress(name, socket.localAddress)) return;
  throw new ServiceError(
    'misdirected_request',
    `The host ${name} is not allowed. To allow it, start pets serve with --allow-host ${name}`,
  );
}

/** Whether a host is this IP address, in any notation. */
function isSameAddress(host: string, address: string | undefined): boolean {
  const literal = host.replace(/^\[|\]$/g, '');
  return (
    address !== undefined && isIP(literal) !== 0 && canonicalAddress(literal) === canonicalAddress(address)
  );
}

/** Returns the name or address in a host, in lower case and without the port. @throws ServiceError 400 */
function nameOf(host: string): string {
  const name = host.replace(PORT, '').toLowerCase();
  if (!HOST_NAME_PATTERN.test(name)) throw invalidHost();
  return name;
}

const invalidHost = () =>
  invalidRequest('The request must have exactly one Host header, and its host must be a name or an address');

/** Whether an IP address is the address of a reverse proxy whose X-Forwarded-For is used (`--trust-proxy`). */
export type IsTrustedProxy = (address: string) => boolean;

type PeerAndHeaders = Pick<IncomingMessage, 'socket' | 'headers'>;

/**
 * Returns a function that returns the address of the client of a request (docs/service.md 5.2). If the peer is a trusted
 * proxy, this is the rightmost address in X-Forwarded-For that does not belong to a trusted proxy, or the leftmost address
 * if all do. In any other case, or if the header is missing or cannot be read, this is the address of the peer.
 *
 * @param onUnreadable called with the peer and the header the first time that a trusted proxy sends an unreadable header
 */
export function createAddressReader(
  isTrusted: IsTrustedProxy | undefined,
  onUnreadable: (peer: string, header: string) => void = () => {},
): (request: PeerAndHeaders) => string {
  let isReported = false;
  return ({ socket, headers }) => {
    // The socket has no address if its connection is already closed.
    const peer = withoutMapping(socket.remoteAddress ?? 'unknown');
    const forwarded = headers['x-forwarded-for'];
    if (forwarded === undefined || !isTrusted?.(peer)) return peer;
    const addresses = String(forwarded).split(',').map(addressIn);
    if (!addresses.every((address) => isIP(address) !== 0)) {
      if (!isReported) onUnreadable(peer, String(forwarded));
      isReported = true;
      return peer;
    }
    return canonicalAddress(addresses.findLast((address) => !isTrusted(address)) ?? addresses[0] ?? peer);
  };
}

/** An address with a port, as Azure Application Gateway sends it: `203.0.113.9:51234` or `[2001:db8::1]:443`. */
const WITH_PORT = /^(?:([\d.]+):\d{1,5}|\[([^\]]+)\](?::\d{1,5})?)$/;

function addressIn(entry: string): string {
  const text = entry.trim();
  const [, ipv4, ipv6] = WITH_PORT.exec(text) ?? [];
  return ipv4 ?? ipv6 ?? text;
}

/** Returns one notation for all notations of an address, so that they do not count as different clients. */
export const canonicalAddress = (address: string): string =>
  withoutMapping(new SocketAddress({ address, family: ipVersionOf(address) }).address);

/** Removes the prefix that an IPv4 address has on an IPv6 socket: ::ffff:10.0.0.1 becomes 10.0.0.1. */
const withoutMapping = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '');

const IPV6_GROUPS = 8;
const NETWORK_GROUPS = 4;

/**
 * The network whose clients share the limit for requests without a valid key: an IPv4 address, or the /64 block of an IPv6
 * address, because a single client usually has all addresses of such a block.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = [], tail = []] = address.split('::').map((part) => part.split(':').filter(Boolean));
  const zeros = Array(Math.max(0, IPV6_GROUPS - head.length - tail.length)).fill('0');
  return `${[...head, ...zeros, ...tail].slice(0, NETWORK_GROUPS).join(':')}::/64`;
}
