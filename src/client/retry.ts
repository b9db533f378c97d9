import { isNotCarriedOut } from '../contract/api.ts';
import type { AttemptOutcome } from './attempt.ts';
import { ContractError, NetworkError } from './errors.ts';
import { parseRetryAfter, rateLimitDelay } from './rate-limit.ts';
import type { HttpResponse } from './response.ts';

// How retries are decided. Times are in milliseconds.

export type WaitReason = 'rate limit' | 'server error' | 'connection' | 'still in progress';

/** Whether the service may have applied a request to which it did not respond with success. */
export function mayHaveBeenApplied(outcome: AttemptOutcome): boolean {
  if ('response' in outcome) {
    const { status } = outcome.response;
    if (isNotCarriedOut(outcome.response)) return false;
    // 302 and 303 may redirect to a page about the applied request. 301, 307 and 308 only ask for another URL.
    return (
      (status <= 303 && status !== 301) || status >= 500 || status === 408 || isInProgress(outcome.response)
    );
  }
  const { error } = outcome;
  if (error instanceof NetworkError) return error.sent;
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
  isLocal: boolean;
  now: number;
};

/** The shortest waits between attempts; a response can request longer ones. There is one attempt more than waits. */
const delays: Record<'failure' | 'persistent' | 'permanent', readonly number[]> = {
  /** In these 13 seconds, a service can restart. */
  failure: [500, 1_000, 2_000, 4_000, 5_500],
  /** For failures that rarely end within seconds, such as a full disk. */
  persistent: [300, 600],
  /** For failures that a retry would repeat. */
  permanent: [],
};

/** How long to wait before another attempt, and why; undefined if there must be none. */
export function decideRetry(
  outcome: AttemptOutcome,
  state: RetryState,
): { wait: number; reason: WaitReason } | undefined {
  const { idempotent, supportsIdempotency, ambiguous, attempt, maxWait } = state;
  const [reason, rule, requested = 0] = retryRule(outcome, state);
  const isSafe = idempotent || supportsIdempotency || !ambiguous;
  const delay = delays[rule][attempt - 1];
  if (!isSafe || delay === undefined || maxWait === undefined) return undefined;
  const wait = Math.max(requested, delay);
  return wait <= maxWait ? { wait, reason } : undefined;
}

/** The reason to wait, the kind of failure, which decides the waits, and the wait that the response requests. */
function retryRule(
  outcome: AttemptOutcome,
  { supportsIdempotency, isLocal, now }: RetryState,
): readonly [WaitReason, keyof typeof delays, requested?: number] {
  if ('response' in outcome) {
    const { status, headers, code } = outcome.response;
    if (status === 429) return ['rate limit', 'failure', rateLimitDelay(headers, now)];
    // X-RateLimit-Reset is ignored, because that header does not say when a failing service recovers.
    const requested = parseRetryAfter(headers, now) ?? 0;
    if (supportsIdempotency && isInProgress(outcome.response))
      return ['still in progress', 'failure', requested];
    const isTemporary = [408, 500, 502, 503, 504].includes(status);
    const isDiskFull = status === 503 && code === 'storage_full';
    return ['server error', isDiskFull ? 'persistent' : isTemporary ? 'failure' : 'permanent', requested];
  }
  const { error } = outcome;
  if (!(error instanceof NetworkError) || error.isPermanent) return ['connection', 'permanent'];
  // These rarely end within seconds: a timeout, an unknown host, and a service on this machine that does not run.
  const isPersistent =
    error.code === 'timeout' || error.errno === 'ENOTFOUND' || (error.errno === 'ECONNREFUSED' && isLocal);
  return ['connection', isPersistent ? 'persistent' : 'failure'];
}
