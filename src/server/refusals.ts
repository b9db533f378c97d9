import { header } from '../contract/headers.ts';
import type { Verdict } from './limits/limiter.ts';
import { retryAfter } from './response-headers.ts';
import { ServiceError } from './service-error.ts';

// The refusals that say more than their body does: each comes with the headers that belong to it.

/** The same for a missing and for an invalid key (design D13). */
export const unauthorized = (): ServiceError =>
  new ServiceError('unauthorized', 'A valid API key is needed: Authorization: Bearer <API_KEY>', {
    [header.wwwAuthenticate]: 'Bearer',
  });

export const nothingAt = (path: string): ServiceError =>
  new ServiceError('not_found', `There is nothing at ${path}`);

/** `allow` is the list of methods as the header has it. */
export const methodNotAllowed = (path: string, allow: string): ServiceError =>
  new ServiceError('method_not_allowed', `${path} allows ${allow}`, { [header.allow]: allow });

/** The answer to a request over the limit, or with a banned key (designs D7 and D9). `now` is in milliseconds. */
export function overLimit({ window, retryAt = window.resetAt, banned }: Verdict, now: number): ServiceError {
  const seconds = retryAfter(retryAt - now);
  const headers = { [header.retryAfter]: String(seconds) };
  return banned
    ? new ServiceError(
        'key_banned',
        `The key is banned for sending on after a 429: retry in ${seconds} s`,
        headers,
      )
    : new ServiceError(
        'rate_limited',
        `The limit of ${window.limit} requests is used up: retry in ${seconds} s`,
        headers,
      );
}
