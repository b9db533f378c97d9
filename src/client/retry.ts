import { isNotCarriedOut } from '../contract/error-codes.ts';
import type { AttemptOutcome } from './attempt.ts';
import { ContractError, NetworkError, NoResponseError, TimeoutError } from './errors.ts';
import { parseRetryAfter, rateLimitDelay } from './rate-limit.ts';
import type { HttpResponse } from './response.ts';

// How retries are decided. Times are in milliseconds.

export type WaitReason = 'rate limit' | 'server error' | 'connection' | 'still in progress';

/** Whether the service may have applied a request to which it did not respond with success. */
export function mayHaveBeenApplied(outcome: AttemptOutcome): boolean {
  if ('response' in outcome) {
    const { status } = outcome.response;
    if (isNotCarriedOut(outcome.response)) return false;
    // 301, 302 and 303 may redirect to a page about the applied request. 307 and 308 only ask for another URL.
    return status <= 303 || status >= 500 || status === 408 || isInProgress(outcome.response);
  }
  const { error } = outcome;
  if (error instanceof NoResponseError) return error.sent;
  return error instanceof ContractError || outcome.wasSent === true;
}

/** Whether the service is still executing the first request with this Idempotency-Key (docs/service.md, D10). */
const isInProgress = ({ status, code }: HttpResponse): boolean =>
  status === 409 && code === 'idempotency_in_flight';

/** What a decision depends on besides the outcome of the last attempt. */
export type RetryState = {
  /** Whether sending the request twice has the same effect as sending it once. */
  idempotent: boolean;
  /** Whether the service has shown support for Idempotency-Key, and the key may still be sent: a retry is safe. */
  supportsIdempotency: boolean;
  /** Whether this attempt or an earlier one may have been applied although no response confirms it. */
  ambiguous: boolean;
  attempt: number;
  maxWait: number | undefined;
  failsFastIfRefused: boolean;
  now: number;
};

export type RetryDecision =
  | { retry: true; wait: number; reason: WaitReason }
  /** `neededMaxWait` is the `maxWait` that would allow the retry; set only if the wait is longer than `maxWait`. */
  | { retry: false; neededMaxWait?: number };

/** How often a request is attempted, and the waits in between: `backoff`, doubled after each attempt, up to `cap`. */
type Rule = { attempts: number; backoff: number; cap: number };

const rules = {
  /** If the response requests no wait, the waits add up to at most 15 s, in which a service can restart. */
  failure: { attempts: 6, backoff: 500, cap: 5_500 },
  /** For failures that rarely end within seconds, such as a full disk. */
  persistent: { attempts: 3, backoff: 300, cap: 600 },
  /** For failures that a retry would repeat. */
  permanent: { attempts: 1, backoff: 0, cap: 0 },
} satisfies Record<string, Rule>;

/** Decides whether and when to retry after an attempt without success. */
export function decideRetry(outcome: AttemptOutcome, state: RetryState): RetryDecision {
  const { idempotent, supportsIdempotency, ambiguous, attempt, maxWait } = state;
  const [reason, rule, requested = 0] = retryRule(outcome, state);
  const isSafe = idempotent || supportsIdempotency || !ambiguous;
  if (!isSafe || attempt >= rule.attempts || maxWait === undefined) return { retry: false };
  const backoff = Math.min(rule.cap, rule.backoff * 2 ** (attempt - 1));
  const delay = Math.max(requested, backoff);
  if (delay > maxWait) return { retry: false, neededMaxWait: delay };
  return { retry: true, wait: delay, reason };
}

/** Why and how a request is retried, and the wait that the response requests. */
function retryRule(
  outcome: AttemptOutcome,
  { supportsIdempotency, failsFastIfRefused, now }: RetryState,
): readonly [WaitReason, Rule, requested?: number] {
  if ('response' in outcome) {
    const { status, headers, code } = outcome.response;
    if (status === 429) return ['rate limit', rules.failure, rateLimitDelay(headers, now)];
    // X-RateLimit-Reset is ignored, because that header does not say when a failing service recovers.
    const requested = parseRetryAfter(headers, now) ?? 0;
    if (supportsIdempotency && isInProgress(outcome.response))
      return ['still in progress', rules.failure, requested];
    const isTemporary = [408, 500, 502, 503, 504].includes(status);
    const rule = isTemporary ? rules.failure : rules.permanent;
    const isDiskFull = status === 503 && code === 'storage_full';
    return ['server error', isDiskFull ? rules.persistent : rule, requested];
  }
  const { error } = outcome;
  // A timed-out attempt has already taken long, so fewer attempts follow.
  if (error instanceof TimeoutError) return ['connection', rules.persistent];
  // All other errors are no failures of the network, such as too little memory.
  if (!(error instanceof NetworkError) || error.isPermanent) return ['connection', rules.permanent];
  const isPersistent = error.errno === 'ENOTFOUND' || (error.errno === 'ECONNREFUSED' && failsFastIfRefused);
  return ['connection', isPersistent ? rules.persistent : rules.failure];
}
