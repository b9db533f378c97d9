import { API_PREFIX, type ErrorCode, errorCodes, operations } from '../contract/api.ts';
import { header } from '../contract/headers.ts';
import { StoreFailedError, StoreUnavailableError, StoreUnwritableError } from '../store/errors.ts';
import type { RateLimitDecision } from '../store/limiter.ts';
import type { RawHeaders } from './response.ts';

const operationPaths = new Set(Object.values(operations).map(({ path }) => API_PREFIX + path));

/** An error response: `code` decides the status, and `headers` are sent in addition to the usual ones (docs/service.md 7). */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly headers: RawHeaders;

  constructor(code: ErrorCode, message: string, headers: RawHeaders = []) {
    super(message);
    this.code = code;
    this.headers = headers;
  }

  get status(): number {
    return errorCodes[this.code];
  }

  get body(): string {
    return JSON.stringify({ code: this.code, message: this.message, status: this.status });
  }
}

/** The error of a request with a missing or wrong credential. It counts as a guess (docs/service.md 5.2, D13). */
export class CredentialError extends ServiceError {}

export const invalidRequest = (message: string): ServiceError => new ServiceError('invalid_request', message);

/** There is no valid API key, developer token or code. `advice` says what to do (docs/service.md 5.2, D13). */
export const unauthorized = (reason: string, advice?: string): ServiceError =>
  new CredentialError('unauthorized', advice === undefined ? reason : `${reason}. ${advice}`, [
    header.wwwAuthenticate,
    'Bearer',
  ]);

export const notFound = (): ServiceError =>
  new ServiceError(
    'not_found',
    `Not found. The API has the paths ${[...operationPaths].join(', ')}, described at /openapi.json`,
  );

export const methodNotAllowed = (path: string, allow: string): ServiceError =>
  new ServiceError('method_not_allowed', `${path} supports only ${allow}`, [header.allow, allow]);

/** The value of Retry-After: whole seconds, rounded up, at least 1 (D7). */
const retryAfterSeconds = (milliseconds: number): number => Math.max(1, Math.ceil(milliseconds / 1_000));

/** The error of a request over the limit or with a banned key (D7, D9). */
export function tooManyRequests({
  window,
  windows,
  now,
  retryAt = window.resetAt,
  banned,
}: RateLimitDecision): ServiceError {
  const seconds = retryAfterSeconds(retryAt - now);
  const unit = window.limit === windows.day.limit ? 'day' : 'minute';
  const [code, reason] = banned
    ? ([
        'key_banned',
        'The API key is banned, because requests continued after the limit was used up',
      ] as const)
    : (['rate_limited', `The limit of ${window.limit} requests per ${unit} is used up`] as const);
  return new ServiceError(code, `${reason}. Retry in ${seconds} s`, [header.retryAfter, String(seconds)]);
}

const NO_DATABASE = 'The service cannot use its database';

const retryLater = (code: ErrorCode, message: string, seconds: number): ServiceError =>
  new ServiceError(code, `${message}. Retry in ${seconds} s`, [header.retryAfter, String(seconds)]);

export const serviceStarting = (): ServiceError =>
  retryLater('starting', 'The service is starting; the request was not carried out', 1);

export const animalMayBeAdded =
  'the animal may have been added, and a retry without the same Idempotency-Key can add it twice';

/**
 * The response if the store is unavailable, full or has failed (D11); otherwise undefined. Without `possibleChange`, the
 * operation cannot have changed the store, even if the outcome of a call, such as counting the request, is unknown.
 */
export function storageError(error: unknown, possibleChange: string | undefined): ServiceError | undefined {
  // A database is often back after a second, so the client may retry then.
  if (error instanceof StoreUnavailableError && possibleChange !== undefined && error.outcome === 'unknown')
    return retryLater('unavailable', `${NO_DATABASE} at the moment; ${possibleChange}`, 1);
  if (error instanceof StoreUnavailableError)
    return retryLater(
      'storage_unreachable',
      `${NO_DATABASE} or read its API keys at the moment; the request was not carried out`,
      1,
    );
  // Nothing can be stored: no animal and, in a database, not even the counts of requests, so reads can fail too.
  // Space can become free at any time.
  if (error instanceof StoreUnwritableError)
    return retryLater(
      'storage_full',
      'The service cannot store the data of this request at the moment; the request was not carried out',
      5,
    );
  if (error instanceof StoreFailedError)
    return new ServiceError(
      'storage_failed',
      `The storage of the service failed${possibleChange === undefined ? '' : `; ${possibleChange}`}`,
    );
  return undefined;
}
