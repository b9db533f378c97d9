import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../contract/clock.ts';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import type { Quota } from '../../contract/plans.ts';
import { hashKey } from '../../store/keys.ts';
import { unauthorized } from '../refusals.ts';
import { countHeader } from '../request/count-header.ts';
import { ServiceError } from '../service-error.ts';

const BEARER = /^Bearer +(\S+) *$/i;

/** Who sends a request: the SHA-256 of the key names the caller wherever something is counted or remembered. */
export type Caller = { id: string; quota: Quota };

/** The keys that the service knows, by SHA-256 in hexadecimal. `now` is in milliseconds since the epoch. */
export interface KeyDirectory {
  find(sha256: string, now: number): Promise<{ quota: Quota } | undefined>;
}

/** Finds the caller of a request. */
export type Authenticate = (request: IncomingMessage) => Promise<Caller>;

/**
 * Makes what finds the caller by `Authorization: Bearer <key>` (specification 5). It fails with a ServiceError: 401, the
 * same for a missing and for an invalid key; 400 for two Authorization headers.
 */
export function createAuthenticator(keys: KeyDirectory, clock: Clock): Authenticate {
  /** What each connection sent last, and its hash: most send the same key again and again. */
  const sent = new WeakMap<Socket, { authorization: string; id: string }>();

  function idOf({ headers, socket }: IncomingMessage): string | undefined {
    const { authorization = '' } = headers;
    const last = sent.get(socket);
    if (last?.authorization === authorization) return last.id;
    const key = BEARER.exec(authorization)?.[1];
    if (key === undefined || !API_KEY_PATTERN.test(key)) return undefined;
    const id = hashKey(key);
    sent.set(socket, { authorization, id });
    return id;
  }

  return async (request) => {
    if (countHeader(request, 'authorization') > 1) {
      throw new ServiceError('invalid_request', 'The Authorization header is given twice');
    }
    const id = idOf(request);
    const known = id === undefined ? undefined : await keys.find(id, clock.now());
    if (id === undefined || known === undefined) throw unauthorized();
    return { id, quota: known.quota };
  };
}
