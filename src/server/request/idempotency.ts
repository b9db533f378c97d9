import { createHash } from 'node:crypto';
import { decodeIdempotencyKey } from '../../contract/idempotency-key.ts';
import type { Addition, Idempotency } from '../../store/store.ts';
import { ServiceError } from '../service-error.ts';

/**
 * The Idempotency-Key of a creation (design D10), with a hash of what the body asks for.
 *
 * @throws ServiceError `invalid_request` for a header that is no idempotency key
 */
export function readIdempotency(
  value: string | string[] | undefined,
  scope: string,
  pet: Addition['pet'],
): Idempotency | undefined {
  if (value === undefined) return undefined;
  const key = decodeIdempotencyKey(String(value));
  if (key === undefined) {
    throw new ServiceError(
      'invalid_request',
      'Idempotency-Key must be a quoted string of 1 to 255 ASCII characters',
    );
  }
  return { scope, key, bodyHash: hashBody(pet) };
}

function hashBody({ name, categoryId, status }: Addition['pet']): string {
  return createHash('sha256')
    .update(JSON.stringify([name, categoryId.toString(), status]))
    .digest('hex');
}
