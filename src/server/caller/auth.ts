import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import type { Quota } from '../../contract/plans.ts';
import { hashKey } from '../../store/keys.ts';
import type { Awaitable } from '../awaitable.ts';
import { countHeader } from '../request/count-header.ts';
import { ServiceError } from '../service-error.ts';

const BEARER = /^Bearer +(\S+) *$/i;

/** Who sends a request: the SHA-256 of the key names the caller wherever something is counted or remembered. */
export type Caller = { id: string; quota: Quota };

/** The keys that the service knows, by SHA-256 in hexadecimal. `now` is in milliseconds since the epoch. */
export interface KeyDirectory {
  find(sha256: string, now: number): Awaitable<{ quota: Quota } | undefined>;
}

/**
 * Makes what reads `Authorization: Bearer <key>` (specification 5): the SHA-256 of the key, undefined where there is none
 * or no key can look like that. It throws a ServiceError, 400, for two Authorization headers.
 */
export function createKeyReader(): (request: IncomingMessage) => string | undefined {
  /** What each connection sent last, and its hash: most send the same key again and again. */
  const sent = new WeakMap<Socket, { authorization: string; sha256: string }>();

  return (request) => {
    if (countHeader(request, 'authorization') > 1) {
      throw new ServiceError('invalid_request', 'The Authorization header is given twice');
    }
    const { authorization = '' } = request.headers;
    const last = sent.get(request.socket);
    if (last?.authorization === authorization) return last.sha256;
    const key = BEARER.exec(authorization)?.[1];
    if (key === undefined || !API_KEY_PATTERN.test(key)) return undefined;
    const sha256 = hashKey(key);
    sent.set(request.socket, { authorization, sha256 });
    return sha256;
  };
}
