import type { IncomingMessage } from 'node:http';
import { invalidRequest, ServiceError } from '../http-errors.ts';

/** The limit for the line and the headers of a request, in bytes (docs/service.md 8.5). */
export const MAX_HEADER_BYTES = 8 * 1024;
/** The bytes of `GET`, ` /target` and ` HTTP/1.1\r\n` besides the target, and of the empty line after the headers. */
const LINE_BYTES = ' '.length + ' HTTP/1.1\r\n'.length + '\r\n'.length;
const BYTES_PER_HEADER = ': \r\n'.length;

/** The headers have too many bytes. */
export const headersTooLarge = (): ServiceError =>
  new ServiceError('headers_too_large', 'The request line and the headers are larger than 8 KiB');

/**
 * Rejects what Node's parser accepts although this service cannot handle it: versions of HTTP other than 1.0 and 1.1,
 * transfer codings other than chunked, and large headers. Node limits only the sum of the target, the names and the values,
 * so thousands of empty headers would get through.
 *
 * @throws ServiceError 400 or 431
 */
export function checkHttp({
  httpVersion,
  headers,
  rawHeaders,
  method = '',
  url = '',
}: IncomingMessage): void {
  let bytes = method.length + url.length + LINE_BYTES + (rawHeaders.length / 2) * BYTES_PER_HEADER;
  for (const part of rawHeaders) bytes += part.length;
  if (bytes > MAX_HEADER_BYTES) throw headersTooLarge();
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
 * How often a header occurs in a request. Node merges or drops repeated headers in `headers`, so they are counted in
 * `rawHeaders`. `name` is in lower case.
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
