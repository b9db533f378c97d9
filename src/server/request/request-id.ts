import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { header } from '../../contract/headers.ts';

const REQUEST_ID = header.requestId.toLowerCase();

/** The accepted form of an id. Other text could be mistaken for further fields of a log line. */
const PATTERN = /^[A-Za-z0-9._-]{1,64}$/;

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
    return typeof id === 'string' && PATTERN.test(id) ? id : `${prefix}-${++count}`;
  };
}
