import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../service-error.ts';

/** Refuses an expectation other than the one that HTTP knows (RFC 9110, 10.1.1). @throws ServiceError 417 */
export function checkExpectation(request: IncomingMessage): void {
  const { expect } = request.headers;
  if (expect === undefined || expect.toLowerCase() === '100-continue') return;
  throw new ServiceError(
    'expectation_failed',
    'The only expectation that can be met is Expect: 100-continue',
  );
}
