import type { AttemptOutcome } from '../../src/client/attempt.ts';
import { NetworkError } from '../../src/client/errors.ts';
import type { HttpHeaders } from '../../src/client/response.ts';
import type { RetryState } from '../../src/client/retry.ts';

export const NOW = Date.parse('2026-11-20T12:00:00Z');

/** The state of the first attempt of a read that may wait 75 s. */
export const state: RetryState = {
  idempotent: true,
  supportsIdempotency: false,
  ambiguous: false,
  attempt: 1,
  maxWait: 75_000,
  isLocal: false,
  now: NOW,
};

/** A response. With `code`, the body is an Error of the API. Without `code`, the body is empty. */
export const response = (status: number, headers: HttpHeaders = {}, code?: string): AttemptOutcome => ({
  response: {
    status,
    headers,
    body: code === undefined ? '' : JSON.stringify({ code, message: 'no', status }),
    code,
  },
});

export const networkError = (errno: string | undefined, sent: boolean): AttemptOutcome => ({
  error: new NetworkError('failed', { errno, sent }),
});

export const timeout = (sent: boolean): AttemptOutcome => ({
  error: new NetworkError('timed out after 30 s', { code: 'timeout', sent }),
});

export const retryAfter = (seconds: number | string): HttpHeaders => ({ 'retry-after': String(seconds) });

export const resetIn = (seconds: number): HttpHeaders => ({
  'x-ratelimit-reset': String(NOW / 1_000 + seconds),
});
