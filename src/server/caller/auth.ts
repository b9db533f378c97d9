import type { IncomingMessage } from 'node:http';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import type { Quota } from '../../contract/plans.ts';
import { hashKey } from '../../store/keys.ts';
import { unauthorized } from '../refusals.ts';
import { countHeader } from '../request/count-header.ts';
import { ServiceError } from '../service-error.ts';

/** Who sends a request: the SHA-256 of the key names the caller wherever something is counted or remembered. */
export type Caller = { id: string; quota: Quota };

/** The keys that the service knows, by SHA-256 in hexadecimal. */
export interface KeyDirectory {
  find(sha256: string): Promise<{ quota: Quota } | undefined>;
}

/**
 * Finds the caller by `Authorization: Bearer <key>` (specification 5).
 *
 * @throws ServiceError 401, the same for a missing and for an invalid key; 400 for two Authorization headers
 */
export async function authenticate(request: IncomingMessage, keys: KeyDirectory): Promise<Caller> {
  if (countHeader(request, 'authorization') > 1) {
    throw new ServiceError('invalid_request', 'The Authorization header is given twice');
  }
  const key = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1];
  if (key !== undefined && API_KEY_PATTERN.test(key)) {
    const id = hashKey(key);
    const known = await keys.find(id);
    if (known !== undefined) return { id, quota: known.quota };
  }
  throw unauthorized();
}
