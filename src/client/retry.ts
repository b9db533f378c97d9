import type { AttemptOutcome } from './attempt.ts';
import { NetworkError, ProxyError, TimeoutError } from './errors.ts';
import { delayUntilReset, isExhausted, parseRetryAfter, requestedDelay } from './rate-limit.ts';
import { type HttpResponse, parseErrorBody } from './response.ts';

/** What a decision depends on besides the outcome of the last attempt. Times are in milliseconds. */
export type RetryState = {
  /** Whether sending the request twice has the same effect as sending it once. */
  idempotent: boolean;
  /** Whether the service has shown that it supports the Idempotency-Key of the request, which makes a retry safe. */
  supportsIdempotency: boolean;
  /** Whether this attempt or an earlier one may have been applied although no response confirms it. */
  ambiguous: boolean;
  /** The number of attempts so far. */
  attempt: number;
  /** The part of `maxWait` that this call has used. */
  waited: number;
  /** The limit for all waits of the call; negative if the call must not be retried. */
  maxWait: number;
  /** True if the call is one of many. Then, rate-limit waits of up to about a minute do not count against `maxWait`. */
  background: boolean;
  now: number;
  /** A random number, uniform in [0, 1). */
  random: number;
};

export type WaitReason = 'rate limit' | 'server error' | 'connection' | 'still in progress';

export type RetryDecision =
  /** `cost` is the part of `wait` that counts against `maxWait`. */
  | { retry: true; wait: number; cost: number; reason: WaitReason }
  /** `wait` is the time until a retry could succeed. It is set after a 429, or if only `maxWait` excludes the retry. */
  | { retry: false; wait?: number };

/** The limits and delays of retries. Times are in milliseconds. */
export const retryRules = {
  rateLimit: { attempts: 4, backoff: 1_000, cap: 60_000, jitter: { share: 0.1, min: 250, max: 3_000 } },
  failure: { attempts: 3, backoff: 300, cap: 10_000, statuses: [408, 500, 502, 503, 504] },
  inProgress: { attempts: 10, backoff: 500, cap: 5_000 },
  /** The longest wait, before jitter, with no cost for a background call: a minute, and 2 s for rounding to seconds. */
  minuteWindow: 62_000,
} as const;

const STOP: RetryDecision = { retry: false };

/** Decides whether and when to retry after an attempt without success (docs/client-behaviour.md, docs/service.md 8.4). */
export function decideRetry(outcome: AttemptOutcome, state: RetryState): RetryDecision {
  if ('response' in outcome) {
    if (outcome.response.status === 429) return afterRateLimit(outcome.response, state);
    if (isInProgress(outcome.response) && state.supportsIdempotency) {
      return afterInProgress(outcome.response, state);
    }
  }
  return afterFailure(outcome, state);
}

/**
 * How long no request with this API key may be sent after a response, in milliseconds. After a 429, this is the delay
 * before a retry. If the rate-limit window has no requests left, this is the time until its end. Otherwise undefined.
 */
export function coolDownAfter(
  { status, headers }: HttpResponse,
  attempt: number,
  now: number,
): number | undefined {
  if (status === 429) return rateLimitDelay(headers, attempt, now);
  return isExhausted(headers) ? delayUntilReset(headers, now) : undefined;
}

/** The part of a wait that counts against `maxWait`; undefined if the wait would exceed `maxWait`. */
export function budgetCost(
  wait: number,
  { waited, maxWait, background }: Pick<RetryState, 'waited' | 'maxWait' | 'background'>,
): number | undefined {
  if (background && wait <= retryRules.minuteWindow + retryRules.rateLimit.jitter.max) return 0;
  return waited + wait <= maxWait ? wait : undefined;
}

/** Lengthens a wait by a random amount, so that processes that wait for the same time do not all send at once. */
export function withJitter(wait: number, random: number): number {
  const { share, min, max } = retryRules.rateLimit.jitter;
  return wait + random * Math.min(Math.max(wait * share, min), max);
}

/** Whether the service is still executing the first request with this Idempotency-Key (docs/service.md, D10). */
export const isInProgress = (response: HttpResponse): boolean =>
  response.status === 409 && parseErrorBody(response)?.code === 'idempotency_in_flight';

function afterRateLimit({ headers }: HttpResponse, state: RetryState): RetryDecision {
  const wait = withJitter(rateLimitDelay(headers, state.attempt, state.now), state.random);
  // Checked here because `budgetCost` allows a background call to wait even if retries are off.
  const isAllowed = state.maxWait >= 0 && state.attempt < retryRules.rateLimit.attempts;
  return isSafe(state) && isAllowed ? retryWithinBudget(state, wait, 'rate limit') : { retry: false, wait };
}

function afterInProgress({ headers }: HttpResponse, state: RetryState): RetryDecision {
  const { attempts, backoff, cap } = retryRules.inProgress;
  if (state.attempt >= attempts) return STOP;
  const delay = Math.max(parseRetryAfter(headers, state.now) ?? 0, exponential(backoff, state.attempt, cap));
  return retryWithinBudget(state, withJitter(delay, state.random), 'still in progress');
}

function afterFailure(outcome: AttemptOutcome, state: RetryState): RetryDecision {
  const { attempts, backoff, cap } = retryRules.failure;
  if (!isSafe(state) || !isRetryable(outcome) || state.attempt >= attempts) return STOP;
  const delay = state.random * exponential(backoff, state.attempt, cap);
  if ('error' in outcome) return retryWithinBudget(state, delay, 'connection');
  // X-RateLimit-Reset is ignored, because that header does not say when a failing service recovers.
  const requested = parseRetryAfter(outcome.response.headers, state.now) ?? 0;
  return retryWithinBudget(state, Math.max(delay, requested), 'server error');
}

/** Whether the request can be sent again without having its effect twice. */
const isSafe = ({ idempotent, supportsIdempotency, ambiguous }: RetryState): boolean =>
  idempotent || supportsIdempotency || !ambiguous;

function isRetryable(outcome: AttemptOutcome): boolean {
  if ('response' in outcome)
    return (retryRules.failure.statuses as readonly number[]).includes(outcome.response.status);
  const { error } = outcome;
  return (error instanceof NetworkError || error instanceof TimeoutError) && !isPermanent(error);
}

/** Whether a retry would fail in the same way, as after a certificate error or a rejection by a proxy. */
const isPermanent = (error: NetworkError | TimeoutError): boolean =>
  (error instanceof ProxyError && error.status !== undefined && error.status < 500) ||
  ('code' in error && /CERT|TLS|SSL|SIGNATURE|ISSUER|CRL|EPROTO|INVALID_|PATH_LENGTH/.test(error.code ?? ''));

function retryWithinBudget(state: RetryState, wait: number, reason: WaitReason): RetryDecision {
  const background = state.background && reason === 'rate limit';
  const cost = budgetCost(wait, { ...state, background });
  return cost === undefined ? { retry: false, wait } : { retry: true, wait, cost, reason };
}

/** The requested delay of a 429, but at least the exponential backoff of the attempt. */
function rateLimitDelay(headers: HttpResponse['headers'], attempt: number, now: number): number {
  const { backoff, cap } = retryRules.rateLimit;
  return Math.max(requestedDelay(headers, now) ?? 0, exponential(backoff, attempt, cap));
}

const exponential = (base: number, attempt: number, cap: number): number =>
  Math.min(cap, base * 2 ** (attempt - 1));
