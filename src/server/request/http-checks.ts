import type { IncomingMessage } from 'node:http';
import { invalidRequest, ServiceError } from '../http-errors.ts';

/**
 * Rejects what Node's parser accepts although this service cannot handle it: versions of HTTP other than 1.0 and 1.1,
 * and transfer codings other than chunked.
 *
 * @throws ServiceError 400
 */
export function checkHttpVersion({ httpVersion, headers }: IncomingMessage): void {
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
