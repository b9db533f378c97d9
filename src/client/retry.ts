import { NetworkError, TimeoutError } from './errors.ts';
import { askedWait } from './rate-limit.ts';
import type { Reply } from './transport.ts';

export type Outcome = { reply: Reply } | { failure: unknown };

export type RetryState = {
  /** Whether sending twice does no more than sending once. */
  repeatable: boolean;
  /** How many attempts were made, this one included. */
  attempt: number;
  /** Milliseconds that this call has waited so far, and may wait in all. */
  waited: number;
  maxWait: number;
  now: number;
  /** Uniform in [0, 1). */
  random: number;
};

export type RetryDecision =
  | { retry: true; wait: number; reason: 'rate limit' | 'server error' | 'connection' }
  /** `wait` is set where only the allowed waiting time stood in the way. */
  | { retry: false; wait?: number };

/** What the rules say, as data. Times are in milliseconds. */
export const retryRules = {
  rateLimit: { attempts: 4, backoff: 1_000, cap: 60_000, jitter: { share: 0.1, min: 250, max: 3_000 } },
  failure: { attempts: 3, backoff: 300, cap: 10_000, statuses: [408, 500, 502, 503, 504] },
} as const;

const STOP: RetryDecision = { retry: false };

/** Decides what follows an outcome: pure, so that the loop only sleeps and sends. */
export function decideRetry(outcome: Outcome, state: RetryState): RetryDecision {
  if ('reply' in outcome && outcome.reply.status === 429) return afterRateLimit(outcome.reply, state);
  if (!mayRepeat(outcome, state.repeatable)) return STOP;
  const { attempts, backoff, cap } = retryRules.failure;
  if (state.attempt >= attempts) return STOP;
  const jittered = state.random * exponential(backoff, state.attempt, cap);
  const asked = 'reply' in outcome ? askedWait(withoutReset(outcome.reply), state.now) : undefined;
  return within(state, Math.max(jittered, asked ?? 0), 'reply' in outcome ? 'server error' : 'connection');
}

function afterRateLimit(reply: Reply, state: RetryState): RetryDecision {
  const { attempts, backoff, cap, jitter } = retryRules.rateLimit;
  const floor = exponential(backoff, state.attempt, cap);
  const asked = Math.max(askedWait(reply.headers, state.now) ?? 0, floor);
  const spread = Math.min(Math.max(asked * jitter.share, jitter.min), jitter.max);
  const wait = asked + state.random * spread;
  return state.attempt >= attempts ? { retry: false, wait } : within(state, wait, 'rate limit');
}

function mayRepeat(outcome: Outcome, repeatable: boolean): boolean {
  if ('reply' in outcome) {
    return repeatable && (retryRules.failure.statuses as readonly number[]).includes(outcome.reply.status);
  }
  const { failure } = outcome;
  if (failure instanceof NetworkError) return isTemporary(failure) && (repeatable || !failure.sent);
  return failure instanceof TimeoutError && repeatable;
}

/** A certificate that is refused now is refused again. */
const isTemporary = (failure: NetworkError): boolean => !/CERT|TLS|SSL|SIGNATURE/.test(failure.code ?? '');

function within(
  state: RetryState,
  wait: number,
  reason: (RetryDecision & { retry: true })['reason'],
): RetryDecision {
  return state.waited + wait > state.maxWait ? { retry: false, wait } : { retry: true, wait, reason };
}

const exponential = (base: number, attempt: number, cap: number): number =>
  Math.min(cap, base * 2 ** (attempt - 1));

/** X-RateLimit-Reset says when a window ends, not when a failing service is well again. */
const withoutReset = ({ headers }: Reply) => ({
  date: headers['date'],
  'retry-after': headers['retry-after'],
});
