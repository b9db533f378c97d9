import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../service-error.ts';
import { countHeader } from './count-header.ts';

const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i;
const LOOPBACK = /^(localhost|(::ffff:)?127(\.\d{1,3}){3}|\[::1\]|::1)$/i;

/** Whether an address that is listened on is this machine's own. */
export const isLoopback = (host: string): boolean => LOOPBACK.test(host);

/**
 * The names that the service answers to, lower case: undefined for every name. A page of a foreign site, whose name was
 * bound to this machine (DNS rebinding), gets nothing from a service at loopback.
 */
export function namesFor(host: string, allowed: readonly string[]): ReadonlySet<string> | undefined {
  if (!isLoopback(host) && allowed.length === 0) return undefined;
  const bound = host.includes(':') ? `[${host}]` : host;
  return new Set([bound, ...allowed].map((name) => name.toLowerCase()));
}

/**
 * Demands exactly one Host header (RFC 9112, 3.2), and one of `names` or of loopback in it, with whatever port: it may
 * have been forwarded.
 *
 * @throws ServiceError 400, or 421 for a foreign name
 */
export function checkHost(request: IncomingMessage, names: ReadonlySet<string> | undefined): void {
  const name = HOST.exec(request.headers.host ?? '')?.[1]?.toLowerCase();
  if (name === undefined || countHeader(request, 'host') !== 1) {
    throw new ServiceError(
      'invalid_request',
      'The request must have exactly one Host header, a name or an address',
    );
  }
  if (names === undefined || names.has(name) || LOOPBACK.test(name)) return;
  throw new ServiceError(
    'misdirected_request',
    `This service does not answer for ${name}: pets serve --allow-host ${name} makes it`,
  );
}
