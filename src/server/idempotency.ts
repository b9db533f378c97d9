import { createHash } from 'node:crypto';
import type { Addition, Idempotency } from '../store/store.ts';
import { ServiceError } from './service-error.ts';

/** A structured-field string, or the bare token that many clients send; at most 255 characters. */
const KEY =
  /^(?:"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,255})"|([\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]{1,255}))$/;

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
  const match = KEY.exec(String(value));
  const key = match?.[1] ?? match?.[2];
  if (key === undefined) {
    throw new ServiceError(
      'invalid_request',
      'Idempotency-Key must be a quoted string of 1 to 255 visible ASCII characters',
    );
  }
  return { scope, key, bodyHash: hashBody(pet) };
}

function hashBody({ name, categoryId, status }: Addition['pet']): string {
  return createHash('sha256')
    .update(JSON.stringify([name, categoryId.toString(), status]))
    .digest('hex');
}
