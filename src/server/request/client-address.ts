import type { IncomingMessage } from 'node:http';
import { isIP, SocketAddress } from 'node:net';
import { ipVersionOf } from '../../system/address-blocks.ts';

/** Whether an IP address is the address of a reverse proxy whose X-Forwarded-For is used (`--trust-proxy`). */
export type IsTrustedProxy = (address: string) => boolean;

type Arrival = Pick<IncomingMessage, 'socket' | 'headers'>;

/**
 * Returns a function that returns the address of the client of a request (docs/service.md 5.2). If the peer is a trusted
 * proxy, this is the rightmost address in X-Forwarded-For that does not belong to a trusted proxy, or the leftmost address
 * if all do. In any other case, or if the header is missing or cannot be read, this is the address of the peer.
 *
 * @param onUnreadable called with the peer and the header the first time that a trusted proxy sends an unreadable header
 */
export function createClientAddress(
  isTrusted: IsTrustedProxy | undefined,
  onUnreadable: (peer: string, header: string) => void = () => {},
): (request: Arrival) => string {
  let isReported = false;
  return ({ socket, headers }) => {
    // A connection that is already closed has no address.
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
