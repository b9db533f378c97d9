import type { IncomingMessage } from 'node:http';
import { HOST_NAME_PATTERN, LOOPBACK_NAME_PATTERN } from '../../contract/headers.ts';
import { createAddressMatcher } from '../../system/address-blocks.ts';
import { invalidRequest, ServiceError } from '../errors.ts';

/** The limit for the line and the headers of a request, in bytes (docs/service.md 8.5). */
export const MAX_HEADER_BYTES = 8 * 1024;
/** The bytes of the request line without the method and the target, plus the empty line after the headers. */
const LINE_BYTES = ' '.length + ' HTTP/1.1\r\n'.length + '\r\n'.length;
const BYTES_PER_HEADER = ': \r\n'.length;

export const headersTooLargeError = (): ServiceError =>
  new ServiceError('headers_too_large', 'The request line and the headers are larger than 8 KiB');

/**
 * Rejects what Node's parser accepts although this service cannot handle it: versions of HTTP other than 1.0 and 1.1,
 * transfer codings other than chunked, and large headers. Node limits only the sum of the target, the names and the values,
 * so thousands of empty headers would get through. `target` is the target as the client sent it.
 *
 * @throws ServiceError 400 or 431
 */
export function checkHttp(
  { httpVersion, headers, rawHeaders, method = '' }: IncomingMessage,
  target: string,
): void {
  let bytes = method.length + target.length + LINE_BYTES + (rawHeaders.length / 2) * BYTES_PER_HEADER;
  for (const part of rawHeaders) bytes += part.length;
  if (bytes > MAX_HEADER_BYTES) throw headersTooLargeError();
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    throw invalidRequest(`HTTP/${httpVersion} is not supported. Use HTTP/1.1`);
  }
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    throw invalidRequest('The only supported Transfer-Encoding is chunked');
  }
}

/** Rejects every expectation except `100-continue` (RFC 9110, 10.1.1). @throws ServiceError 417 */
export function checkExpectation({ headers: { expect } }: IncomingMessage): void {
  if (expect === undefined || expect.toLowerCase() === '100-continue') return;
  throw new ServiceError('expectation_failed', 'The only supported expectation is Expect: 100-continue');
}

/**
 * How often a header occurs in a request. Node joins repeated headers in `headers`, so they are counted in `rawHeaders`.
 * `name` is in lower case.
 */
export function countHeader({ rawHeaders, headers }: IncomingMessage, name: string): number {
  if (headers[name] === undefined) return 0;
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const raw = rawHeaders[i] ?? '';
    if (raw.length === name.length && raw.toLowerCase() === name) count++;
  }
  return count;
}

/**
 * Refuses requests that a browser sends for a page of another origin, such as another port of this machine. Browsers
 * report this in `Sec-Fetch-Site`. Requests without this header, such as those of other clients, pass.
 *
 * @throws ServiceError 403
 */
export function checkSameOrigin({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'] ?? 'none';
  if (site === 'none' || site === 'same-origin') return;
  throw new ServiceError('forbidden', 'Pages of other origins cannot use this path');
}

const PORT = /:\d{1,5}$/;

/** Whether an IP address is a loopback address. Accepts any notation of IPv6, but IPv4 only as four numbers. */
export const isLoopbackAddress = createAddressMatcher(['127.0.0.0/8', '::1']);

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
 * Creates the check of the host of a request (docs/service.md 10; RFC 9112, 3.2). The host is `targetHost` if the
 * request target is absolute, otherwise the Host header. The check throws ServiceError 400 if the header is missing,
 * repeated or malformed, and 421 if the name of the host is not allowed. Loopback names and the names in `names` are
 * allowed. If `names` is undefined, every name is allowed. The port does not matter. HTTP/1.0 needs no Host header.
 *
 * @returns a function that returns the host as the client wrote it; undefined without a host
 */
export function createHostCheck(
  names: ReadonlySet<string> | undefined,
): (request: IncomingMessage, targetHost?: string) => string | undefined {
  // Most requests have the same Host header, so a header that equals the last accepted one is not checked again.
  let lastAccepted: string | undefined;

  return (request, targetHost) => {
    const { host } = request.headers;
    if (host !== undefined && host === lastAccepted && targetHost === undefined) return host;
    const count = countHeader(request, 'host');
    const isOptional = count === 0 && request.httpVersion === '1.0';
    if (count !== 1 && !isOptional) throw invalidHost();
    const fromHeader = host === undefined ? undefined : nameOf(host);
    const name = targetHost === undefined ? fromHeader : nameOf(targetHost);
    if (name === undefined) return undefined;
    if (names && !names.has(name) && !LOOPBACK_NAME_PATTERN.test(name)) {
      throw new ServiceError(
        'misdirected_request',
        `The host ${name} is not allowed. To allow it: pets serve --allow-host ${name}`,
      );
    }
    if (targetHost === undefined) lastAccepted = host;
    return targetHost ?? host;
  };
}

/** Returns the name or address in a host, in lower case and without the port. @throws ServiceError 400 */
function nameOf(host: string): string {
  const name = host.replace(PORT, '').toLowerCase();
  if (!HOST_NAME_PATTERN.test(name)) throw invalidHost();
  return name;
}

const invalidHost = () =>
  invalidRequest('The request must have exactly one Host header with a name or an address');
