import type { IncomingMessage } from 'node:http';
import { API_KEY_PATTERN } from '../contract/headers.ts';
import type { Quota } from '../contract/plans.ts';
import { StoreUnavailableError } from '../store/errors.ts';
import { hashKey } from '../store/keys/keys.ts';
import type { Limiter, RateLimitDecision, RateLimitWindow } from '../store/limits/limiter.ts';
import type { MemoryLimiter } from '../store/limits/memory-limiter.ts';
import { connectionOf } from './connection/pipelining.ts';
import { invalidRequest, type ServiceError, tooManyRequests, unauthorized } from './errors.ts';
import { countHeader } from './request/checks.ts';
import { networkOf, type RequestContext } from './request/context.ts';
import type { Maybe } from './response.ts';

/** An authenticated caller. `id` is the SHA-256 of the API key. */
export type Principal = { id: string; quota: Quota };

/** What the service knows about an API key. `name` appears in logs. */
type ApiKey = { name: string; quota: Quota };

/** Finds API keys by their SHA-256 in hexadecimal. */
export interface ApiKeyLookup {
  find(sha256: string): Maybe<ApiKey | undefined>;
}

export type AuthenticationOptions = {
  keys: ApiKeyLookup;
  /** Counts the requests of each API key. */
  limiter: Limiter;
  /** Counts the requests without a valid key, per client address (docs/service.md, D13). */
  anonymousLimiter: MemoryLimiter;
  /** Whether the service is meant only for programs on this machine, so that requests without a valid key have no limit. */
  isLocal?: boolean | undefined;
  /** Whether a SHA-256 in hexadecimal is that of a credential for the developer tools. */
  isDeveloper?: ((sha256: string) => boolean) | undefined;
};

const ANONYMOUS_QUOTA: Quota = { perMinute: 60, perDay: Number.POSITIVE_INFINITY };

/** The rate-limit window of a client's address, for responses to callers without a valid key. */
export const anonymousWindow = (limiter: MemoryLimiter, client: string): RateLimitWindow =>
  limiter.peek(networkOf(client), ANONYMOUS_QUOTA).window;

/** Authentication and the rate limit of the caller (docs/service.md 5 and 8). */
export function createAuthentication(options: AuthenticationOptions) {
  const { keys, limiter, anonymousLimiter, isLocal = true, isDeveloper } = options;

  async function findSlowly(
    id: string | undefined,
    found: Maybe<ApiKey | undefined>,
    request: IncomingMessage,
    context: RequestContext,
  ): Promise<Principal> {
    try {
      const key = await found;
      if (id === undefined || key === undefined) throw refusalOf(request, API_KEY);
      context.keyName = key.name;
      return { id, quota: key.quota };
    } catch (error) {
      // It is not known whether the key is valid, so the request is not counted as anonymous.
      if (id !== undefined && error instanceof StoreUnavailableError) showLastWindow(id, context);
      else await countAnonymous(context);
      throw error;
    }
  }

  /** Counts a request that was not authenticated, whatever the reason. @throws ServiceError 429 unless `isLocal` */
  async function countAnonymous(context: RequestContext): Promise<void> {
    const decision = await anonymousLimiter.take(networkOf(context.client), ANONYMOUS_QUOTA);
    context.window = decision.window;
    if (!isLocal && decision.retryAt !== undefined) throw tooManyRequests(decision);
  }

  /** Lets the response report the caller's last known window, because the current one is not available. */
  function showLastWindow(id: string, context: RequestContext): void {
    context.window = limiter.lastWindow(id);
    context.isCaller = context.window !== undefined;
  }

  function allowOrRefuse(decision: RateLimitDecision, context: RequestContext): RateLimitDecision {
    context.window = decision.window;
    context.isDay = decision.window === decision.windows.day;
    context.isCaller = true;
    if (decision.retryAt !== undefined) throw tooManyRequests(decision);
    context.isCounted = true;
    return decision;
  }

  return {
    countAnonymous,

    /** Returns the caller. Counts a failure as anonymous. @throws ServiceError 400, 401, or 429 unless `isLocal` */
    authenticate(request: IncomingMessage, context: RequestContext): Maybe<Principal> {
      const id = hashOfCredentials(request);
      const key = id === undefined ? undefined : keys.find(id);
      if (id === undefined || key === undefined || key instanceof Promise) {
        return findSlowly(id, key, request, context);
      }
      context.keyName = key.name;
      return { id, quota: key.quota };
    },

    /** Counts a request of an authenticated caller. @throws ServiceError 429 */
    count({ id, quota }: Principal, context: RequestContext): Maybe<RateLimitDecision> {
      const taken = limiter.take(id, quota);
      if (!(taken instanceof Promise)) return allowOrRefuse(taken, context);
      return taken.then(
        (decision) => allowOrRefuse(decision, context),
        (error) => {
          showLastWindow(id, context);
          throw error;
        },
      );
    },

    /** Puts the caller's rate-limit window into `context`, without counting the request. */
    async showWindow({ id, quota }: Principal, context: RequestContext): Promise<RateLimitDecision> {
      const decision = await limiter.peek(id, quota);
      context.window = decision.window;
      context.isCaller = true;
      return decision;
    },

    /** Lets only developers pass (docs/service.md 13). @throws ServiceError 400, 401, or 429 unless `isLocal` */
    async checkDeveloper(request: IncomingMessage, context: RequestContext): Promise<void> {
      const id = hashOfCredentials(request);
      if (id !== undefined && isDeveloper?.(id)) return;
      await countAnonymous(context);
      throw refusalOf(request, DEVELOPER_TOKEN);
    },
  };
}

const BEARER = /^Bearer +(\S+) *$/i;

/** The SHA-256 of the credential in the Authorization header; undefined without a well-formed one. */
function hashOfCredentials({ headers: { authorization }, socket }: IncomingMessage): string | undefined {
  if (authorization === undefined) return undefined;
  // Most clients send the same key with every request of a connection.
  const connection = connectionOf(socket);
  if (connection.authorization === authorization) return connection.credentialHash;
  const sha256 = hashOfCredential(authorization);
  if (sha256 === undefined) return undefined;
  connection.authorization = authorization;
  connection.credentialHash = sha256;
  return sha256;
}

/** The SHA-256 of the credential in the value of an Authorization header; undefined if it is not well-formed. */
export function hashOfCredential(authorization = ''): string | undefined {
  const credential = BEARER.exec(authorization)?.[1];
  return credential !== undefined && API_KEY_PATTERN.test(credential) ? hashKey(credential) : undefined;
}

/** What the messages of a 401 call a credential, and how to send it. */
const API_KEY = { name: 'API key', advice: 'Send `Authorization: Bearer <API_KEY>`' };
const DEVELOPER_TOKEN = {
  name: 'developer token',
  advice:
    'For the page, open the address that pets serve has printed last; a program sends `Authorization: Bearer <PETS_SERVE_TOKEN>`',
};

/** Schemes that clients use by mistake. Other words of the header can be secrets, so they are never shown. */
const OTHER_SCHEME = /^(Basic|Digest|Token)\b/i;

/** The error of a request without a valid credential, with the reason (docs/service.md 5.2, D13). */
function refusalOf(request: IncomingMessage, { name, advice }: typeof API_KEY): ServiceError {
  const { authorization = '' } = request.headers;
  if (countHeader(request, 'authorization') > 1) {
    return invalidRequest('The Authorization header is given more than once');
  }
  const scheme = OTHER_SCHEME.exec(authorization)?.[1]?.toLowerCase();
  if (authorization === '') return unauthorized('There is no Authorization header', advice);
  if (scheme) {
    return unauthorized(
      `The scheme is ${scheme[0]?.toUpperCase()}${scheme.slice(1)} instead of Bearer`,
      advice,
    );
  }
  if (!/^Bearer\b/i.test(authorization))
    return unauthorized('The Authorization header has no Bearer scheme', advice);
  if (/^Bearer +["'].*["'] *$/i.test(authorization))
    return unauthorized(`The ${name} is in quotation marks`, advice);
  if (!BEARER.test(authorization)) return unauthorized(`The ${name} is empty or has spaces`, advice);
  return name === API_KEY.name
    ? unauthorized('The API key is unknown')
    : unauthorized('The developer token is unknown, or from an earlier start', advice);
}
