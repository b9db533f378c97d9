import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../service-error.ts';

/**
 * Refuses what Node's parser lets pass: other versions of HTTP, and bodies in a coding that nobody takes off.
 *
 * @throws ServiceError 400
 */
export function checkFrame({ httpVersion, headers }: IncomingMessage): void {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    throw new ServiceError('invalid_request', `HTTP/${httpVersion} is not spoken here: use HTTP/1.1`);
  }
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    throw new ServiceError('invalid_request', 'The only Transfer-Encoding is chunked');
  }
}
