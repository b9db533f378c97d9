import type { IncomingMessage } from 'node:http';
import { isIP, type Socket, SocketAddress } from 'node:net';
import { ipVersionOf } from '../../system/address-blocks.ts';

/** Whether an IP address is the address of a reverse proxy whose X-Forwarded-For is used (`--trust-proxy`). */
export type IsTrustedProxy = (address: string) => boolean;

/**
 * Returns the address of the client of a request (docs/service.md 10). If the peer is a trusted proxy, this is the
 * rightmost address in X-Forwarded-For that does not belong to a trusted proxy, or the leftmost address if all do. In any
 * other case, and if the header contains anything but addresses, this is the address of the peer.
 */
export function clientAddress(
  { socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>,
  isTrusted: IsTrustedProxy | undefined,
): string {
  const peer = peerAddress(socket);
  const forwarded = headers['x-forwarded-for'];
  if (forwarded === undefined || !isTrusted?.(peer)) return peer;
  const addresses = String(forwarded)
    .split(',')
    .map((entry) => entry.trim());
  if (!addresses.every((address) => isIP(address) !== 0)) return peer;
  return canonical(addresses.findLast((address) => !isTrusted(address)) ?? addresses[0] ?? peer);
}

/** The address of the other end of a connection; `unknown` if the connection is closed. */
export const peerAddress = ({ remoteAddress }: Pick<Socket, 'remoteAddress'>): string =>
  remoteAddress === undefined ? 'unknown' : withoutMapping(remoteAddress);

/** Returns one notation for all notations of an address, so that they do not count as different clients. */
const canonical = (address: string): string =>
  withoutMapping(new SocketAddress({ address, family: ipVersionOf(address) }).address);

/** On an IPv6 socket, an IPv4 address such as 10.0.0.1 is written ::ffff:10.0.0.1. */
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
