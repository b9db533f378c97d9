import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP, type Socket, SocketAddress } from 'node:net';
import { header } from '../../contract/headers.ts';
import type { RateLimitWindow } from '../../store/limits/limiter.ts';
import { ipVersionOf } from '../../system/address-blocks.ts';

/** A response that a `Prefer` header, a fault rule or `--fail-rate` asks for, instead of running the operation. */
export type RequestedMock = {
  /** NaN if a `Prefer` header gives no positive integer. */
  status: number;
  /** The value of Retry-After, in seconds; NaN if a `Prefer` header gives no positive integer for it. */
  retryAfter?: number | undefined;
  /** What requested it; quoted in the message and in the log, such as `Prefer: code=503` or `fault rule 3`. */
  source: string;
  /** The value of Preference-Applied; undefined unless a `Prefer` header asks for the response. */
  applied?: string;
};

export type RequestContext = ReturnType<typeof createContext>;

/** What the service knows about a request. Each step adds its results here, so that error responses have them too. */
export const createContext = (
  id: string,
  client: string,
  request: IncomingMessage | undefined,
  started: number,
) => ({
  /** The request id, which the response has as X-Request-Id. */
  id,
  /** The client's IP address. */
  client,
  /** Undefined if Node did not pass the request on: usually, it was not valid HTTP. */
  request,
  /** The method and the target as the client sent them; `-` if `request` is undefined. */
  method: request?.method ?? '-',
  url: request?.url ?? '-',
  /** The headers as the client sent them, alternately: name, value, name, value. */
  sentHeaders: (request?.rawHeaders ?? []) as readonly string[],
  /** When the request began, as `elapsed()` of the clock, in milliseconds. */
  started,
  /** Whether the request is under the prefix of the API. */
  isApi: false,
  /** The host that the client asked for, with an optional port; undefined if the request names none. */
  host: undefined as string | undefined,
  /** The label of the route, or `options` for an OPTIONS request; undefined until the route is found. */
  operation: undefined as string | undefined,
  /** The name of the API key, if it is valid. */
  keyName: undefined as string | undefined,
  /** Headers of the response, besides those that the handler adds. Alternately names and values. */
  headers: [header.requestId, id] as string[],
  /** The window that the response reports. If undefined, the response reports the window of the client's address. */
  window: undefined as RateLimitWindow | undefined,
  /** Whether the request was checked against the limits of its API key, and `window` is the window of the day. */
  isDay: false,
  /** Whether `window` is the window of an API key. */
  isCaller: false,
  /** Whether the request was counted against the rate limit of its API key. */
  isCounted: false,
  /** The mocked response that was sent; undefined for a real one. */
  asked: undefined as RequestedMock | undefined,
  /** The response that `--fail-rate` chose. A `Prefer` header or a fault rule with an `answer` overrides it. */
  randomFault: undefined as RequestedMock | undefined,
  /** The number of the fault rule that applied. */
  rule: undefined as number | undefined,
  /** The injected latency of the response, in milliseconds. */
  latency: 0,
  /** Whether the request may have changed the store: it has passed all checks, and its method does not only read. */
  canChange: false,
  /** The recorded beginning of the body; each character is one byte. `bodyBytes` is the size of the whole body. */
  body: '',
  bodyBytes: 0,
  /** The request's number in the log, from 1 at each start; 0 if it is not in the log. Unlike ids, it is unique. */
  number: 0,
  /** Whether the log of the developer tools gets this request. */
  isRecorded: false,
  /** The number of the request that this one repeats, if `POST /requests` sent it. */
  again: undefined as number | undefined,
  /** Whether the request is for a developer tool or the page. */
  isTool: false,
});

const REQUEST_ID = header.requestId.toLowerCase();

/** The accepted form of an id. Other text could be mistaken for further fields of a log line. */
const ID_PATTERN = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * Returns a function that returns the id of a request: the one in its X-Request-Id header if that has the required form,
 * otherwise a new one (docs/service.md 10).
 */
export function createRequestIds(): (request?: IncomingMessage) => string {
  // A random prefix with a number is unique enough, and faster than a random UUID for each request.
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  return (request) => {
    const id = request?.headers[REQUEST_ID];
    return typeof id === 'string' && ID_PATTERN.test(id) ? id : `${prefix}-${++count}`;
  };
}

/** Whether an IP address is the address of a reverse proxy whose X-Forwarded-For is used (`--trust-proxy`). */
export type IsTrustedProxy = (address: string) => boolean;

/**
 * Returns the address of the client of a request (docs/service.md 5.2). If the peer is a trusted proxy, this is the
 * rightmost address in X-Forwarded-For that does not belong to a trusted proxy, or the leftmost address if all do. In any
 * other case, or if the header is missing or contains anything but addresses, this is the address of the peer.
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
