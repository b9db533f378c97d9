import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import type { Quota } from '../contract/api.ts';
import { API_KEY_PATTERN } from '../contract/headers.ts';
import { generateKey, hashKey } from '../store/keys.ts';
import type { MemoryLimiter, RateLimitWindow } from '../store/limiter.ts';
import { CredentialError, type ServiceError, tooManyRequests, unauthorized } from './errors.ts';
import { networkOf } from './request/checks.ts';
import { readBodyAs } from './request/input.ts';
import type { Handler } from './response.ts';

/** An authenticated caller. `id` is the SHA-256 of the API key. */
export type Caller = { id: string; quota: Quota };

export type AuthenticationOptions = {
  /** Counts the requests without a valid key, per client address (docs/service.md, D13). */
  anonymousLimiter: MemoryLimiter;
  /** Whether the service is meant only for this machine. If so, requests without a valid key have no limit. */
  isLocal?: boolean | undefined;
  /** Whether a SHA-256 in hexadecimal is that of a credential for the developer tools. */
  isDeveloper?: ((sha256: string) => boolean) | undefined;
};

const ANONYMOUS_QUOTA: Quota = { perMinute: 60, perDay: Number.POSITIVE_INFINITY };

/** The rate-limit window of a client's address, for responses that do not report the window of an API key. */
export const anonymousWindow = (limiter: MemoryLimiter, client: string): RateLimitWindow =>
  limiter.peek(networkOf(client), ANONYMOUS_QUOTA).window;

/** Returns functions that check the credentials of requests (docs/service.md 5; docs/testing.md). */
export function createAuthentication(options: AuthenticationOptions) {
  const { anonymousLimiter, isLocal = true, isDeveloper } = options;
  // Most requests have the same key as the one before, so its hash is remembered.
  let last: { authorization: string | undefined; id: string | undefined } | undefined;
  return {
    /** The SHA-256 of the credential in a request, valid or not; undefined if there is none that is well-formed. */
    identify({ headers: { authorization } }: IncomingMessage): string | undefined {
      if (last?.authorization !== authorization)
        last = { authorization, id: hashOfCredential(authorization) };
      return last?.id;
    },

    /** Lets only developers pass. @throws CredentialError */
    checkDeveloper(request: IncomingMessage): void {
      const id = hashOfCredential(request.headers.authorization);
      if (id === undefined || !isDeveloper?.(id)) throw credentialError(request, 'developer token');
    },

    credentialError,

    /** Counts a request without a valid credential. Returns its error; above the limit, a 429, but not if `isLocal`. */
    async countGuess(error: CredentialError, client: string): Promise<ServiceError> {
      const decision = await anonymousLimiter.take(networkOf(client), ANONYMOUS_QUOTA);
      return decision.retryAt === undefined || isLocal ? error : tooManyRequests(decision);
    },
  };
}

const BEARER = /^Bearer +(\S+) *$/i;

/** The SHA-256 of the credential in the value of an Authorization header; undefined if it is not well-formed. */
function hashOfCredential(authorization = ''): string | undefined {
  const credential = BEARER.exec(authorization)?.[1];
  return credential !== undefined && API_KEY_PATTERN.test(credential) ? hashKey(credential) : undefined;
}

type CredentialName = 'API key' | 'developer token';

/** The error of a request without a valid credential, with the reason (docs/service.md 5.2, D13). */
function credentialError(request: IncomingMessage, name: CredentialName): CredentialError {
  const names = request.rawHeaders.filter((_, i) => i % 2 === 0);
  if (names.filter((sent) => sent.toLowerCase() === 'authorization').length > 1)
    return new CredentialError('invalid_request', 'The Authorization header is given more than once');
  const reason = reasonOf(request, name);
  if (name === 'developer token') {
    const page = 'For the page, if there is one, open the address that pets serve has printed last';
    const program = 'a program sends `Authorization: Bearer $PETS_SERVE_TOKEN`';
    const choice = 'to choose the token, set the variable PETS_SERVE_TOKEN of pets serve';
    return unauthorized(reason, `${page}; ${program}; ${choice}`);
  }
  // A client that sends the scheme Bearer needs no advice about the header. Probably, only its key is mistyped.
  const isMistyped = /^Bearer\b/i.test(request.headers.authorization ?? '');
  return unauthorized(reason, isMistyped ? undefined : 'Send `Authorization: Bearer <API_KEY>`');
}

const OTHER_HEADERS = ['X-Api-Key', 'Api-Key', 'X-Auth-Token', 'Proxy-Authorization'];

/** What people send instead of a credential by mistake. */
const MISTAKES: readonly [pattern: RegExp, problem: string][] = [
  [/^["'].*["']$/, 'is in quotation marks'],
  [/^undefined$/, 'is the word undefined, so a variable was not set'],
  [/^null$/, 'is the word null, so a variable was not set'],
  [/^(?:\$\{?\w+\}?|%\w+%|\{\{.*\}\})$/, 'is the name of a variable instead of its value'],
  [/^[<[{].*[>\]}]$/, 'is a placeholder that was not replaced'],
];

const GENERATED_LENGTH = 48;

/** Why a credential is refused. Of the header, only common schemes and mistakes are named: other words can be secrets. */
function reasonOf({ headers }: IncomingMessage, name: CredentialName): string {
  const { authorization } = headers;
  const other = OTHER_HEADERS.find((each) => headers[each.toLowerCase()] !== undefined);
  if (authorization === undefined)
    return `There is no Authorization header${other === undefined ? '' : `, and ${other} is ignored`}`;
  const [, scheme] = /^(Basic|Digest|Token)\b/i.exec(authorization) ?? [];
  if (scheme) return `The scheme is ${scheme} instead of Bearer`;
  if (!/^Bearer\b/i.test(authorization)) return 'The Authorization header has no Bearer scheme';
  const text = authorization.slice('Bearer'.length).trim();
  const mistake = MISTAKES.find(([pattern]) => pattern.test(text));
  if (mistake) return `The ${name} ${mistake[1]}`;
  if (!BEARER.test(authorization))
    return `The ${name} is empty or has spaces, or there is no space after Bearer`;
  if (/^pets_[\w-]*$/.test(text) && text.length !== GENERATED_LENGTH)
    return `The ${name} is unknown; it has ${text.length} characters, and generated ones have ${GENERATED_LENGTH}`;
  return `The ${name} is unknown${name === 'API key' ? '' : ', or from an earlier start of pets serve'}`;
}

const Session = z.object({ code: z.string({ error: 'must be a string' }) }, 'must be an object with a code');

/**
 * Creates the credentials for the developer tools (docs/testing.md): a token, which the user can choose, and a session for
 * the page. A code in the page's address opens the session. A code works once; then there is a new one. Generated
 * credentials have 256 bits and the form of an API key, so that everything that redacts API keys redacts them too.
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
    code: () => code,
    /** Whether a SHA-256 in hexadecimal is that of the token or of the session. */
    isDeveloper: (sha256: string): boolean => developers.has(sha256),
    /** `POST /session` exchanges a code for the session. @throws CredentialError, or an error of `readBodyAs` */
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
