import type { AttemptOutcome } from './attempt.ts';
import { NetworkError, ProtocolError, ProxyError, TimeoutError } from './errors.ts';
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
  /** The longest wait; undefined if the call must not be retried. */
  maxWait: number | undefined;
  /** Give up early after refused connections: the service is on this machine, and a user is waiting at a terminal. */
  failsFastIfRefused: boolean;
  now: number;
  /** A random number, uniform in [0, 1). */
  random: number;
};

export type WaitReason = 'rate limit' | 'server error' | 'connection' | 'still in progress';

export type RetryDecision =
  | { retry: true; wait: number; reason: WaitReason }
  /** `neededMaxWait` is set if only `maxWait` excludes the retry. With this `maxWait`, the call would be retried. */
  | { retry: false; neededMaxWait?: number };

/** The limits and delays of retries. Times are in milliseconds. */
export const retryRules = {
  /** `unknown` is the wait after a 429 that does not say how long to wait. */
  rateLimit: { attempts: 6, min: 1_000, unknown: 60_000, jitter: { share: 0.1, min: 250, max: 3_000 } },
  /** Without Retry-After, the waits add up to at most 15 s, in which a service can restart. A quarter is random. */
  failure: { attempts: 6, backoff: 500, cap: 7_500, random: 0.25 },
  /** For failures that rarely end within seconds. */
  persistent: { attempts: 3, backoff: 300, cap: 600, random: 1 },
  inProgress: { attempts: 10, backoff: 500, cap: 5_000 },
  /** The longest pause of all processes after a 503. */
  pause: 60_000,
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
export const coolDownAfter = ({ status, headers }: HttpResponse, now: number): number | undefined =>
  status === 429 ? rateLimitDelay(headers, now) : delayIfExhausted(headers, now);

/**
 * How long no request with the same method may be sent after a 503, in milliseconds; undefined if it does not say so. A
 * service that cannot store anything can still be read.
 */
export function methodPauseAfter(response: HttpResponse, now: number): number | undefined {
  const isAboutStorage = parseErrorBody(response)?.code?.startsWith('storage_') === true;
  const delay =
    response.status === 503 && !isAboutStorage ? parseRetryAfter(response.headers, now) : undefined;
  return delay === undefined ? undefined : Math.min(delay, retryRules.pause);
}

/** Lengthens a rate-limit wait, so that processes do not send at the same time. It is never shortened. */
export function withJitter(delay: number, random: number): number {
  const { share, min, max } = retryRules.rateLimit.jitter;
  return delay + random * Math.min(Math.max(delay * share, min), max);
}

/** Whether the service is still executing the first request with this Idempotency-Key (docs/service.md, D10). */
export const isInProgress = (response: HttpResponse): boolean =>
  response.status === 409 && parseErrorBody(response)?.code === 'idempotency_in_flight';

function afterRateLimit({ headers }: HttpResponse, state: RetryState): RetryDecision {
  if (!isSafe(state) || state.attempt >= retryRules.rateLimit.attempts) return STOP;
  return retryWithin(state, rateLimitDelay(headers, state.now), 'rate limit');
}

function afterInProgress({ headers }: HttpResponse, state: RetryState): RetryDecision {
  const { attempts, backoff, cap } = retryRules.inProgress;
  if (state.attempt >= attempts) return STOP;
  const delay = Math.max(parseRetryAfter(headers, state.now) ?? 0, exponential(backoff, state.attempt, cap));
  return retryWithin(state, delay, 'still in progress');
}

function afterFailure(outcome: AttemptOutcome, state: RetryState): RetryDecision {
  const rule = isPersistent(outcome, state) ? retryRules.persistent : retryRules.failure;
  if (!isSafe(state) || !isRetryable(outcome) || state.attempt >= rule.attempts) return STOP;
  const share = 1 - rule.random * (1 - state.random);
  const delay = share * exponential(rule.backoff, state.attempt, rule.cap);
  if ('error' in outcome) return retryWithin(state, delay, 'connection');
  // X-RateLimit-Reset is ignored, because that header does not say when a failing service recovers.
  const requested = parseRetryAfter(outcome.response.headers, state.now) ?? 0;
  return retryWithin(state, Math.max(delay, requested), 'server error');
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
  error instanceof ProtocolError ||
  (error instanceof ProxyError && error.status !== undefined && error.status < 500) ||
  ('code' in error &&
    /CERT|TLS|SSL|SIGNATURE|ISSUER|CRL|EPROTO|INVALID_|PATH_LENGTH|OVERFLOW/.test(error.code ?? ''));

function retryWithin({ maxWait, random }: RetryState, delay: number, reason: WaitReason): RetryDecision {
  if (maxWait === undefined) return STOP;
  if (delay > maxWait) return { retry: false, neededMaxWait: delay };
  // The other delays are random already.
  const isRequested = reason === 'rate limit' || reason === 'still in progress';
  return { retry: true, wait: isRequested ? withJitter(delay, random) : delay, reason };
}

const rateLimitDelay = (headers: HttpResponse['headers'], now: number): number =>
  Math.max(requestedDelay(headers, now) ?? retryRules.rateLimit.unknown, retryRules.rateLimit.min);

const exponential = (base: number, attempt: number, cap: number): number =>
  Math.min(cap, base * 2 ** (attempt - 1));
