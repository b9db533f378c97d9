import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import { API_KEY_PATTERN } from '../contract/headers.ts';
import type { Quota } from '../contract/plans.ts';
import { StoreUnavailableError } from '../store/errors.ts';
import { generateKey, hashKey } from '../store/keys/keys.ts';
import type { Limiter, MemoryLimiter, RateLimitDecision, RateLimitWindow } from '../store/limits/limiter.ts';
import { connectionOf } from './connection/pipelining.ts';
import { invalidRequest, type ServiceError, tooManyRequests, unauthorized } from './errors.ts';
import { countHeader } from './request/checks.ts';
import { networkOf, type RequestContext } from './request/context.ts';
import { readBodyAs } from './request/input.ts';
import type { Handler, MaybePromise } from './response.ts';

/** An authenticated caller. `id` is the SHA-256 of the API key. */
export type Principal = { id: string; quota: Quota };

/** What the service knows about an API key. `name` appears in logs. */
type ApiKey = { name: string; quota: Quota };

/** Finds API keys by their SHA-256 in hexadecimal. */
export interface ApiKeyLookup {
  find(sha256: string): MaybePromise<ApiKey | undefined>;
}

export type AuthenticationOptions = {
  keys: ApiKeyLookup;
  /** Counts the requests of each API key. */
  limiter: Limiter;
  /** Counts the requests without a valid key, per client address (docs/service.md, D13). */
  anonymousLimiter: MemoryLimiter;
  /** Whether the service is meant only for this machine. If so, requests without a valid key have no limit. */
  isLocal?: boolean | undefined;
  /** Whether a SHA-256 in hexadecimal is that of a credential for the developer tools. */
  isDeveloper?: ((sha256: string) => boolean) | undefined;
};

const ANONYMOUS_QUOTA: Quota = { perMinute: 60, perDay: Number.POSITIVE_INFINITY };

/** The rate-limit window of a client's address, for responses to callers without a valid key. */
export const anonymousWindow = (limiter: MemoryLimiter, client: string): RateLimitWindow =>
  limiter.peek(networkOf(client), ANONYMOUS_QUOTA).window;

/** Returns functions that authenticate callers and count their requests (docs/service.md 5 and 8). */
export function createAuthentication(options: AuthenticationOptions) {
  const { keys, limiter, anonymousLimiter, isLocal = true, isDeveloper } = options;

  async function findSlowly(
    id: string | undefined,
    found: MaybePromise<ApiKey | undefined>,
    request: IncomingMessage,
    context: RequestContext,
  ): Promise<Principal> {
    try {
      const key = await found;
      if (id === undefined || key === undefined) throw refusalOf(request, 'API key');
      context.keyName = key.name;
      return { id, quota: key.quota };
    } catch (error) {
      // If the keys cannot be read, the key may be valid, so the request does not count as anonymous.
      if (id !== undefined && error instanceof StoreUnavailableError) showLastWindow(id, context);
      else await countAnonymous(context);
      throw error;
    }
  }

  /** Counts a request without a valid credential. @throws ServiceError 429 above the limit, unless `isLocal` */
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

    /** Returns the caller, or counts a failure. @throws ServiceError 400, 401 or 429, StoreUnavailableError */
    authenticate(request: IncomingMessage, context: RequestContext): MaybePromise<Principal> {
      const id = hashOfCredentials(request);
      const key = id === undefined ? undefined : keys.find(id);
      if (id === undefined || key === undefined || key instanceof Promise) {
        return findSlowly(id, key, request, context);
      }
      context.keyName = key.name;
      return { id, quota: key.quota };
    },

    /** Counts a request of a caller. @throws ServiceError 429, StoreUnavailableError, StoreUnwritableError */
    count({ id, quota }: Principal, context: RequestContext): MaybePromise<RateLimitDecision> {
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

    /** Puts the rate-limit window into `context`, and does not count the request. @throws StoreUnavailableError */
    async showWindow({ id, quota }: Principal, context: RequestContext): Promise<RateLimitDecision> {
      const decision = await limiter.peek(id, quota);
      context.window = decision.window;
      context.isCaller = true;
      return decision;
    },

    /** Lets only developers pass (docs/testing.md). @throws ServiceError 400, 401, or 429 unless `isLocal` */
    async checkDeveloper(request: IncomingMessage, context: RequestContext): Promise<void> {
      const id = hashOfCredentials(request);
      if (id !== undefined && isDeveloper?.(id)) return;
      await countAnonymous(context);
      throw refusalOf(request, 'developer token');
    },
  };
}

const BEARER = /^Bearer +(\S+) *$/i;

/** The SHA-256 of the credential in the Authorization header; undefined without a well-formed one. */
function hashOfCredentials({ headers: { authorization }, socket }: IncomingMessage): string | undefined {
  if (authorization === undefined) return undefined;
  // Most clients send the same key with every request of a connection, so keep its hash.
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

/** What the 401 advises, by the missing credential. A client that only mistyped its API key does not need this. */
const ADVICE = {
  'API key': 'Send `Authorization: Bearer <API_KEY>`',
  'developer token':
    'For the page, open the address that pets serve has printed last; a program sends `Authorization: Bearer <PETS_SERVE_TOKEN>`',
};

/** The error of a request without a valid credential, with the reason (docs/service.md 5.2, D13). */
function refusalOf(request: IncomingMessage, name: keyof typeof ADVICE): ServiceError {
  const { authorization = '' } = request.headers;
  if (countHeader(request, 'authorization') > 1) {
    return invalidRequest('The Authorization header is given more than once');
  }
  const isMistyped = name === 'API key' && /^Bearer\b/i.test(authorization);
  return unauthorized(reasonOf(authorization, name), isMistyped ? undefined : ADVICE[name]);
}

/** Why a credential is refused. Names only common schemes, because other words of the header can be secrets. */
function reasonOf(authorization: string, name: keyof typeof ADVICE): string {
  if (authorization === '') return 'There is no Authorization header';
  const [, scheme] = /^(Basic|Digest|Token)\b/i.exec(authorization) ?? [];
  if (scheme) return `The scheme is ${scheme} instead of Bearer`;
  if (!/^Bearer\b/i.test(authorization)) return 'The Authorization header has no Bearer scheme';
  if (/^Bearer +["'].*["'] *$/i.test(authorization)) return `The ${name} is in quotation marks`;
  if (!BEARER.test(authorization))
    return `The ${name} is empty or has spaces, or there is no space after Bearer`;
  return `The ${name} is unknown${name === 'API key' ? '' : ', or from an earlier start of pets serve'}`;
}

const Session = z.object({ code: z.string({ error: 'must be a string' }) }, 'must be an object with a code');

/**
 * Creates the credentials for the developer tools (docs/testing.md): a token, and the session of the page, which is
 * opened with a code. A code works once; then there is a new one. The user can choose the token. Generated credentials
 * have 256 bits and the form of an API key, so that everything that redacts API keys redacts them too.
 *
 * @param onNewCode called when a code was used and there is a new one
 */
export function createCredentials(token = generateKey(), onNewCode: () => void = () => {}) {
  // Derived from the token, so that the page needs no new address after a restart with the same token.
  const session = `pets_${createHmac('sha256', token).update('session').digest('base64url')}`;
  const developers = new Set([token, session].map(hashKey));
  let code = generateKey();

  return {
    token,
    /** The code that opens the session the next time. */
    code: () => code,
    /** Whether a SHA-256 in hexadecimal is that of the token or of the session. */
    isDeveloper: (sha256: string): boolean => developers.has(sha256),
    /** `POST /session` exchanges a code for the session. @throws ServiceError 401, or an error of `readBodyAs` */
    openSession: (async (request) => {
      const sent = await readBodyAs(Session, request);
      if (hashKey(sent.code) !== hashKey(code))
        throw unauthorized(
          'This address was already used, is wrong, or is from an earlier start of pets serve',
          'Open the one that pets serve has printed last',
        );
      code = generateKey();
      onNewCode();
      return { status: 200, body: JSON.stringify({ token: session }) };
    }) satisfies Handler,
  };
}
