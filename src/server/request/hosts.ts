import type { IncomingMessage } from 'node:http';
import { BlockList } from 'node:net';
import { HOST_NAME_PATTERN } from '../../contract/headers.ts';
import { ServiceError } from '../service-error.ts';
import { countHeader } from './count-header.ts';

const PORT = /:\d{1,5}$/;
const LOOPBACK_NAME = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/i;

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8);
loopback.addAddress('::1', 'ipv6');

/** Whether an IP address, in whatever spelling, is this machine's own. */
export const isLoopback = (address: string): boolean =>
  loopback.check(address, address.includes(':') ? 'ipv6' : 'ipv4');

/**
 * The names that the service answers to, lower case: undefined for every name. `host` is what was asked for, `address`
 * what it stands for. A page of a foreign site, whose name was bound to this machine (DNS rebinding), gets nothing from a
 * service at loopback.
 */
export function namesFor(
  { host, address }: { host: string; address: string },
  allowed: readonly string[],
): ReadonlySet<string> | undefined {
  if (!isLoopback(address) && allowed.length === 0) return undefined;
  const bound = host.includes(':') ? `[${host}]` : host;
  // As it was typed, and as whoever reads it from a URL spells it.
  return new Set([bound, new URL(`http://${bound}`).hostname, ...allowed].map((name) => name.toLowerCase()));
}

/**
 * Makes what demands exactly one Host header (RFC 9112, 3.2), and one of `names` or of loopback in it, with whatever
 * port: it may have been forwarded. It throws a ServiceError: 400, or 421 for a foreign name.
 */
export function createHostCheck(names: ReadonlySet<string> | undefined): (request: IncomingMessage) => void {
  /** The last that was right: most requests have the same. */
  let known: string | undefined;

  return (request) => {
    const { host = '' } = request.headers;
    const isOne = countHeader(request, 'host') === 1;
    if (isOne && host === known) return;
    const name = host.replace(PORT, '').toLowerCase();
    if (!isOne || !HOST_NAME_PATTERN.test(name)) {
      throw new ServiceError(
        'invalid_request',
        'The request must have exactly one Host header, a name or an address',
      );
    }
    if (names && !names.has(name) && !LOOPBACK_NAME.test(name)) {
      throw new ServiceError(
        'misdirected_request',
        `This service does not answer for ${name}: pets serve --allow-host ${name} makes it`,
      );
    }
    known = host;
  };
}
