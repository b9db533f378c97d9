import type { AttemptOutcome } from './attempt.ts';
import { NetworkError, ProxyError, TimeoutError } from './errors.ts';
import { delayIfExhausted, parseRetryAfter, requestedDelay } from './rate-limit.ts';
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
  /** Give up early after refused connections: the service is on this machine, and a user is waiting at a terminal. */
  failsFastIfRefused: boolean;
  now: number;
  /** A random number, uniform in [0, 1). */
  random: number;
};

export type WaitReason = 'rate limit' | 'server error' | 'connection' | 'still in progress';

export type RetryDecision =
  /** `cost` is the part of `wait` that counts against `maxWait`. */
  | { retry: true; wait: number; cost: number; reason: WaitReason }
  /** `neededMaxWait` is set if only `maxWait` excludes the retry. With this `maxWait`, the call would be retried. */
  | { retry: false; neededMaxWait?: number | undefined };

/** The limits and delays of retries. Times are in milliseconds. */
export const retryRules = {
  /** A background call is attempted more often, but then its waits count against `maxWait`. */
  rateLimit: { attempts: 4, backoff: 1_000, cap: 60_000, jitter: { share: 0.1, min: 250, max: 3_000 } },
  /** Without Retry-After, the waits add up to at most 15 s, in which a service can restart. A quarter is random. */
  failure: { attempts: 6, backoff: 500, cap: 7_500, random: 0.25 },
  /** For failures that rarely end within seconds. */
  persistent: { attempts: 3, backoff: 300, cap: 600, random: 1 },
  inProgress: { attempts: 10, backoff: 500, cap: 5_000 },
  /** The longest wait, before jitter, with no cost for a background call: a minute, and 2 s for rounding to seconds. */
  minuteWindow: 62_000,
} as const;

const RETRYABLE_STATUSES: readonly number[] = [408, 500, 502, 503, 504];

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
  return delayIfExhausted(headers, now);
}

/** The part of a wait that counts against `maxWait`; undefined if the wait would exceed `maxWait`. */
export function budgetCost(
  wait: number,
  { waited, maxWait, background }: Pick<RetryState, 'waited' | 'maxWait' | 'background'>,
): number | undefined {
  if (background && wait <= retryRules.minuteWindow + retryRules.rateLimit.jitter.max) return 0;
  return waited + wait <= maxWait ? wait : undefined;
}

/** The `maxWait` that would allow the wait; undefined if calls must not be retried. */
export const neededMaxWait = (
  wait: number,
  { waited, maxWait }: Pick<RetryState, 'waited' | 'maxWait'>,
): number | undefined => (maxWait < 0 ? undefined : waited + wait);

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
  const isFrequent = state.attempt >= retryRules.rateLimit.attempts;
  // Checked here because `budgetCost` allows a background call to wait even if retries are off.
  if (!isSafe(state) || state.maxWait < 0 || (isFrequent && !state.background)) return STOP;
  // A background call has no maximum number of attempts after a 429. Instead, its later waits count against `maxWait`.
  return retryWithinBudget({ ...state, background: state.background && !isFrequent }, wait, 'rate limit');
}

function afterInProgress({ headers }: HttpResponse, state: RetryState): RetryDecision {
  const { attempts, backoff, cap } = retryRules.inProgress;
  if (state.attempt >= attempts) return STOP;
  const delay = Math.max(parseRetryAfter(headers, state.now) ?? 0, exponential(backoff, state.attempt, cap));
  return retryWithinBudget(state, withJitter(delay, state.random), 'still in progress');
}

function afterFailure(outcome: AttemptOutcome, state: RetryState): RetryDecision {
  const rule = isPersistent(outcome, state) ? retryRules.persistent : retryRules.failure;
  if (!isSafe(state) || !isRetryable(outcome) || state.attempt >= rule.attempts) return STOP;
  const share = 1 - rule.random * (1 - state.random);
  const delay = share * exponential(rule.backoff, state.attempt, rule.cap);
  if ('error' in outcome) return retryWithinBudget(state, delay, 'connection');
  // X-RateLimit-Reset is ignored, because that header does not say when a failing service recovers.
  const requested = parseRetryAfter(outcome.response.headers, state.now) ?? 0;
  return retryWithinBudget(state, Math.max(delay, requested), 'server error');
}

/** Whether the request can be sent again without having its effect twice. */
const isSafe = ({ idempotent, supportsIdempotency, ambiguous }: RetryState): boolean =>
  idempotent || supportsIdempotency || !ambiguous;

function isRetryable(outcome: AttemptOutcome): boolean {
  if ('response' in outcome) return RETRYABLE_STATUSES.includes(outcome.response.status);
  const { error } = outcome;
  return (error instanceof NetworkError || error instanceof TimeoutError) && !isPermanent(error);
}

/** Whether a failure rarely ends within seconds. This includes a timeout, because the attempt has already waited. */
function isPersistent(outcome: AttemptOutcome, { failsFastIfRefused }: RetryState): boolean {
  if ('response' in outcome) return false;
  const { error } = outcome;
  if (!(error instanceof NetworkError)) return true;
  return error.code === 'ENOTFOUND' || (error.code === 'ECONNREFUSED' && failsFastIfRefused);
}

/** Whether a retry would fail in the same way, as after a certificate error or a rejection by a proxy. */
const isPermanent = (error: NetworkError | TimeoutError): boolean =>
  (error instanceof ProxyError && error.status !== undefined && error.status < 500) ||
  ('code' in error && /CERT|TLS|SSL|SIGNATURE|ISSUER|CRL|EPROTO|INVALID_|PATH_LENGTH/.test(error.code ?? ''));

function retryWithinBudget(state: RetryState, wait: number, reason: WaitReason): RetryDecision {
  const background = state.background && reason === 'rate limit';
  const cost = budgetCost(wait, { ...state, background });
  return cost === undefined
    ? { retry: false, neededMaxWait: neededMaxWait(wait, state) }
    : { retry: true, wait, cost, reason };
}

/** The requested delay of a 429, but at least the exponential backoff of the attempt. */
function rateLimitDelay(headers: HttpResponse['headers'], attempt: number, now: number): number {
  const { backoff, cap } = retryRules.rateLimit;
  return Math.max(requestedDelay(headers, now) ?? 0, exponential(backoff, attempt, cap));
}

const exponential = (base: number, attempt: number, cap: number): number =>
  Math.min(cap, base * 2 ** (attempt - 1));
