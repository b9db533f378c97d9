import type { Outcome, Reply } from './attempt.ts';
import { NetworkError, TimeoutError } from './errors.ts';
import { askedWait, isSpent, retryAfter, untilReset } from './rate-limit.ts';
import { readError } from './reply.ts';

/** What a decision needs to know besides the outcome. Times are in milliseconds. */
export type RetryState = {
  /** Whether sending twice does no more than sending once. */
  repeatable: boolean;
  /** Whether the service has shown that it honours the idempotency key, which makes a creation repeatable. */
  honoured: boolean;
  /** Whether this attempt or an earlier one may have been carried out. */
  doubted: boolean;
  /** How many attempts were made, this one included. */
  attempt: number;
  /** What this call has waited so far, and may wait in all; below 0 where it never tries again. */
  waited: number;
  maxWait: number;
  /** Whether this call paces itself: then pauses up to a minute's edge cost nothing of `maxWait`. */
  paced: boolean;
  now: number;
  /** Uniform in [0, 1). */
  random: number;
};

export type WaitReason = 'rate limit' | 'server error' | 'connection' | 'still in progress';

export type RetryDecision =
  /** `cost` is what of the wait counts against `maxWait`. */
  | { retry: true; wait: number; cost: number; reason: WaitReason }
  /** `wait` is set where only the allowed waiting time, or the number of attempts, stood in the way. */
  | { retry: false; wait?: number };

/** What the rules say, as data. Times are in milliseconds. */
export const retryRules = {
  rateLimit: { attempts: 4, backoff: 1_000, cap: 60_000, jitter: { share: 0.1, min: 250, max: 3_000 } },
  failure: { attempts: 3, backoff: 300, cap: 10_000, statuses: [408, 500, 502, 503, 504] },
  inProgress: { attempts: 10, backoff: 500, cap: 5_000 },
  /** The longest pause of a paced call: to the edge of a minute, as a clock that counts in seconds tells it. */
  minuteEdge: 62_000,
} as const;

const STOP: RetryDecision = { retry: false };

/** Decides what follows an outcome (design 5): pure, so that the loop only sleeps and sends. */
export function decideRetry(outcome: Outcome, state: RetryState): RetryDecision {
  if ('reply' in outcome) {
    if (outcome.reply.status === 429) return afterRateLimit(outcome.reply, state);
    if (isInProgress(outcome.reply) && state.honoured) return afterInProgress(outcome.reply, state);
  }
  if (!mayRepeat(outcome, state)) return STOP;
  const { attempts, backoff, cap } = retryRules.failure;
  if (state.attempt >= attempts) return STOP;
  const jittered = state.random * exponential(backoff, state.attempt, cap);
  // X-RateLimit-Reset says when a window ends, not when a failing service is well again.
  const asked = 'reply' in outcome ? retryAfter(outcome.reply.headers, state.now) : undefined;
  return within(state, Math.max(jittered, asked ?? 0), 'reply' in outcome ? 'server error' : 'connection');
}

/**
 * How long nothing more is to be sent with this key after a reply, in milliseconds from now: until a refusal's end,
 * and until the window's end where its last request is spent. Undefined where the reply asks for nothing.
 */
export function restAfter({ status, headers }: Reply, attempt: number, now: number): number | undefined {
  if (status === 429) return refusedFor(headers, attempt, now);
  return isSpent(headers) ? untilReset(headers, now) : undefined;
}

/** What a wait costs of the time that a call may wait in all; undefined where it is not allowed. */
export function costOf(
  wait: number,
  { waited, maxWait, paced }: Pick<RetryState, 'waited' | 'maxWait' | 'paced'>,
): number | undefined {
  if (paced && wait <= retryRules.minuteEdge + retryRules.rateLimit.jitter.max) return 0;
  return waited + wait <= maxWait ? wait : undefined;
}

/** A little longer, never shorter: whoever waits for the same edge does not arrive at the same moment. */
export function withJitter(wait: number, random: number): number {
  const { share, min, max } = retryRules.rateLimit.jitter;
  return wait + random * Math.min(Math.max(wait * share, min), max);
}

function afterRateLimit({ headers }: Reply, state: RetryState): RetryDecision {
  const wait = withJitter(refusedFor(headers, state.attempt, state.now), state.random);
  const isSafe = state.repeatable || state.honoured || !state.doubted;
  // A pause before a request is no repetition, but this is one, and none is wanted.
  const isWanted = state.maxWait >= 0 && state.attempt < retryRules.rateLimit.attempts;
  if (!isSafe || !isWanted) return { retry: false, wait };
  return within(state, wait, 'rate limit');
}

function refusedFor(headers: Reply['headers'], attempt: number, now: number): number {
  const { backoff, cap } = retryRules.rateLimit;
  return Math.max(askedWait(headers, now) ?? 0, exponential(backoff, attempt, cap));
}

/** The first attempt of a creation is still being carried out (design D10). */
export const isInProgress = (reply: Reply): boolean =>
  reply.status === 409 && readError(reply)?.code === 'idempotency_in_flight';

function afterInProgress({ headers }: Reply, state: RetryState): RetryDecision {
  const { attempts, backoff, cap } = retryRules.inProgress;
  if (state.attempt >= attempts) return STOP;
  const asked = retryAfter(headers, state.now) ?? 0;
  return within(
    state,
    withJitter(Math.max(asked, exponential(backoff, state.attempt, cap)), state.random),
    'still in progress',
  );
}

function mayRepeat(outcome: Outcome, { repeatable, honoured }: RetryState): boolean {
  const safe = repeatable || honoured;
  if ('reply' in outcome) {
    return safe && (retryRules.failure.statuses as readonly number[]).includes(outcome.reply.status);
  }
  const { failure } = outcome;
  if (failure instanceof NetworkError) return isTemporary(failure) && (safe || !failure.sent);
  return failure instanceof TimeoutError && (safe || !failure.sent);
}

/** A certificate that is refused now is refused again, and so is a proxy's missing password. */
const isTemporary = ({ code = '' }: NetworkError): boolean =>
  !/CERT|TLS|SSL|SIGNATURE|ISSUER|CRL|EPROTO|INVALID_|PATH_LENGTH/.test(code);

function within(state: RetryState, wait: number, reason: WaitReason): RetryDecision {
  const cost = costOf(wait, reason === 'rate limit' ? state : { ...state, paced: false });
  return cost === undefined ? { retry: false, wait } : { retry: true, wait, cost, reason };
}

const exponential = (base: number, attempt: number, cap: number): number =>
  Math.min(cap, base * 2 ** (attempt - 1));
