import type { Outcome } from '../../src/client/attempt.ts';
import { NetworkError, TimeoutError } from '../../src/client/errors.ts';
import type { ReplyHeaders } from '../../src/client/headers.ts';
import type { RetryState } from '../../src/client/retry.ts';

export const NOW = Date.parse('2026-11-20T12:00:00Z');

/** A first attempt of a read that may wait 75 s, without jitter. */
export const state: RetryState = {
  repeatable: true,
  honoured: false,
  doubted: false,
  attempt: 1,
  waited: 0,
  maxWait: 75_000,
  paced: false,
  now: NOW,
  random: 0,
};

/** A reply; with a code it has an Error body. */
export const reply = (status: number, headers: ReplyHeaders = {}, code?: string): Outcome => ({
  reply: {
    status,
    headers,
    body: code === undefined ? '' : JSON.stringify({ code, message: 'no', status }),
  },
});

export const network = (code: string | undefined, sent: boolean): Outcome => ({
  failure: new NetworkError('failed', { code, sent }),
});

export const late = (sent: boolean): Outcome => ({ failure: new TimeoutError(30_000, { sent }) });

export const retryAfter = (seconds: number | string): ReplyHeaders => ({ 'retry-after': String(seconds) });

export const reset = (secondsAhead: number): ReplyHeaders => ({
  'x-ratelimit-reset': String(NOW / 1_000 + secondsAhead),
});
