import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { SteadyClock } from '../../contract/clock.ts';
import { API_KEY_PATTERN, header } from '../../contract/headers.ts';
import type { Quota } from '../../contract/plans.ts';
import { StoreUnavailableError } from '../../store/errors.ts';
import { hashKey } from '../../store/keys/keys.ts';
import type { Limiter, RateLimitDecision, RateLimitWindow } from '../../store/limits/limiter.ts';
import { invalidRequest, tooManyRequests, unauthorized } from '../http-errors.ts';
import { networkOf } from '../request/client-address.ts';
import type { RequestContext } from '../request/context.ts';
import { countHeader } from '../request/http-checks.ts';

const BEARER = /^Bearer +(\S+) *$/i;

/** An authenticated caller. `id` is the SHA-256 of the API key. */
export type Principal = { id: string; quota: Quota };

/** What the service knows about an API key. `name` appears in logs. */
type ApiKey = { name: string; quota: Quota };

/** Finds API keys by their SHA-256 in hexadecimal. */
export interface ApiKeyLookup {
  find(sha256: string): ApiKey | undefined | Promise<ApiKey | undefined>;
}

export type AuthenticationOptions = {
  keys: ApiKeyLookup;
  /** Counts the requests of each API key. */
  limiter: Limiter;
  /** Counts the requests without a valid key, per client address (docs/service.md, D13). */
  anonymousLimiter: Limiter;
  /** Whether requests without a valid key get 429 above the anonymous limit. */
  limitFailedKeys?: boolean | undefined;
  clock: SteadyClock;
  /** Receives internal errors. */
  onError(error: unknown): void;
};

export type Authentication = ReturnType<typeof createAuthentication>;

const ANONYMOUS_QUOTA: Quota = { perMinute: 60, perDay: Number.POSITIVE_INFINITY };

/** Authentication and the rate limit of the caller (docs/service.md 5 and 8). */
export function createAuthentication(options: AuthenticationOptions) {
  const { keys, limiter, anonymousLimiter, limitFailedKeys = false } = options;
  // The last well-formed Authorization header of each connection, with the hash of its key. Most clients send the same
  // key with every request.
  const lastKeys = new WeakMap<Socket, { authorization: string; sha256: string }>();

  /** The SHA-256 of the key in the Authorization header; undefined without a well-formed key. @throws ServiceError 400 */
  function hashOfKey(request: IncomingMessage): string | undefined {
    if (countHeader(request, 'authorization') > 1) {
      throw invalidRequest('The Authorization header is given more than once');
    }
    const { authorization = '' } = request.headers;
    const last = lastKeys.get(request.socket);
    if (last?.authorization === authorization) return last.sha256;
    const key = BEARER.exec(authorization)?.[1];
    if (key === undefined || !API_KEY_PATTERN.test(key)) return undefined;
    const sha256 = hashKey(key);
    lastKeys.set(request.socket, { authorization, sha256 });
    return sha256;
  }

  /** Counts a request that was not authenticated, whatever the reason. @throws ServiceError 429 if `limitFailedKeys` */
  async function countAnonymous(context: RequestContext): Promise<void> {
    const decision = await anonymousLimiter.take(networkOf(context.client), ANONYMOUS_QUOTA);
    context.window = decision.window;
    if (limitFailedKeys && decision.retryAt !== undefined) throw tooManyRequests(decision);
  }

  /** Lets the response report the caller's last known window, because the current one is not available. */
  function showLastWindow(id: string, context: RequestContext): void {
    const window = limiter.lastWindow(id);
    if (window) setQuota(context, window);
  }

  return {
    hashOfKey,
    countAnonymous,
    /** Returns the caller. Counts a failure as anonymous. @throws ServiceError 400, 401, or 429 if `limitFailedKeys` */
    async authenticate(request: IncomingMessage, context: RequestContext): Promise<Principal> {
      let id: string | undefined;
      try {
        id = hashOfKey(request);
        const key = id === undefined ? undefined : await keys.find(id);
        if (id === undefined || key === undefined) throw unauthorized();
        context.keyName = key.name;
        return { id, quota: key.quota };
      } catch (error) {
        // It is not known whether the key is valid, so the request is not counted as anonymous.
        if (id !== undefined && error instanceof StoreUnavailableError) showLastWindow(id, context);
        else await countAnonymous(context);
        throw error;
      }
    },

    /** Counts a request of an authenticated caller. @throws ServiceError 429 */
    async consumeQuota({ id, quota }: Principal, context: RequestContext): Promise<RateLimitDecision> {
      const decision = await limiter.take(id, quota).catch((error) => {
        showLastWindow(id, context);
        throw error;
      });
      setQuota(context, decision.window);
      context.limits = decision;
      if (decision.retryAt !== undefined) throw tooManyRequests(decision);
      context.isCounted = true;
      return decision;
    },

    /** Puts the caller's rate-limit window into `context`, without counting the request. */
    async peekQuota({ id, quota }: Principal, context: RequestContext): Promise<RateLimitDecision> {
      const decision = await limiter.peek(id, quota);
      setQuota(context, decision.window);
      return decision;
    },
  };
}

/** Returns a function that reads the rate-limit window of a client's address, for responses to anonymous callers. */
export const createAnonymousWindow =
  ({
    anonymousLimiter,
    clock,
    onError,
  }: Pick<AuthenticationOptions, 'anonymousLimiter' | 'clock' | 'onError'>) =>
  async (client: string): Promise<RateLimitWindow> => {
    try {
      return (await anonymousLimiter.peek(networkOf(client), ANONYMOUS_QUOTA)).window;
    } catch (error) {
      // The response is sent even if the limiter fails.
      onError(error);
      return { limit: ANONYMOUS_QUOTA.perMinute, remaining: 0, resetAt: clock.now() };
    }
  };

/** Makes the response report the rate-limit window, and that the service supports idempotency keys (D10). */
function setQuota(context: RequestContext, window: RateLimitWindow): void {
  context.window = window;
  context.headers[header.idempotencySupported] = 'true';
}
