import { type ErrorCode, errorCodes } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import { API_PREFIX, operations } from '../contract/operations.ts';
import type { RateLimitDecision } from '../store/limits/limiter.ts';
import type { HeaderLines } from './response.ts';

/** An error response: `code` decides the status, and `headers` are sent in addition to the usual ones (docs/service.md 7). */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly headers: HeaderLines;

  constructor(code: ErrorCode, message: string, headers: HeaderLines = []) {
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

export const invalidRequest = (message: string): ServiceError => new ServiceError('invalid_request', message);

/** There is no valid API key or developer token. `advice` says what to do (docs/service.md 5.2, D13). */
export const unauthorized = (reason: string, advice?: string): ServiceError =>
  new ServiceError('unauthorized', advice === undefined ? reason : `${reason}. ${advice}`, [
    header.wwwAuthenticate,
    'Bearer',
  ]);

const paths = [...new Set(Object.values(operations).map(({ path }) => API_PREFIX + path))];

/** No resource has the requested path. */
export const notFound = (): ServiceError =>
  new ServiceError(
    'not_found',
    `Not found. The paths are ${paths.join(', ')}; they are described at /openapi.json`,
  );

/** `allow` is the value of the Allow header. */
export const methodNotAllowed = (path: string, allow: string): ServiceError =>
  new ServiceError('method_not_allowed', `${path} supports only ${allow}`, [header.allow, allow]);

/** The value of Retry-After: whole seconds, rounded up, at least 1 (D7). */
const retryAfterSeconds = (milliseconds: number): number => Math.max(1, Math.ceil(milliseconds / 1_000));

/** The error of a request over the limit or with a banned key (D7, D9). */
export function tooManyRequests({
  window,
  now,
  retryAt = window.resetAt,
  banned,
}: RateLimitDecision): ServiceError {
  const seconds = retryAfterSeconds(retryAt - now);
  const [code, reason] = banned
    ? (['key_banned', 'The API key is banned because requests continued after a 429'] as const)
    : (['rate_limited', `The limit of ${window.limit} requests is used up`] as const);
  return new ServiceError(code, `${reason}. Retry in ${seconds} s`, [header.retryAfter, String(seconds)]);
}

/** When to try again after `storage_full`. Space can become free at any time. */
const STORAGE_RETRY_SECONDS = 5;

/** When to try again after `unavailable`. A database is often back after a second. */
const UNAVAILABLE_RETRY_SECONDS = 1;

/** The database does not respond in time, or the keys cannot be read. It may be unknown whether an animal was added. */
export const serviceUnavailable = (): ServiceError =>
  new ServiceError(
    'unavailable',
    `The service cannot use its store for now, and a creation may have been carried out. Retry in ${UNAVAILABLE_RETRY_SECONDS} s`,
    [header.retryAfter, String(UNAVAILABLE_RETRY_SECONDS)],
  );

/** When to try again after `starting`. Most stores are open within a second. */
const STARTING_RETRY_SECONDS = 1;

/** The store is not open yet. */
export const serviceStarting = (): ServiceError =>
  new ServiceError(
    'starting',
    `The service is starting, and the request was not carried out. Retry in ${STARTING_RETRY_SECONDS} s`,
    [header.retryAfter, String(STARTING_RETRY_SECONDS)],
  );

/** The store cannot write: an animal, or in a database also the counts of a key (D11). */
export const storageFull = (): ServiceError =>
  new ServiceError(
    'storage_full',
    `The service cannot store anything for now, and nothing was added. Retry in ${STORAGE_RETRY_SECONDS} s`,
    [header.retryAfter, String(STORAGE_RETRY_SECONDS)],
  );

/** A write has failed, or another program has changed the files of the store (D11). */
export const storageFailed = (): ServiceError =>
  new ServiceError(
    'storage_failed',
    'The storage of the service failed. A creation may have been carried out',
  );
