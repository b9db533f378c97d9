import { isNotCarriedOut } from '../contract/api.ts';
import { header, IDEMPOTENCY_KEY_LIFETIME_MS } from '../contract/headers.ts';
import { InterruptedError, type SteadyClock } from '../system/clock.ts';
import type { Attempt, AttemptOutcome, Transport } from './attempt.ts';
import { ClientError, NetworkError, RateLimitError } from './errors.ts';
import { coolDownAfter, requestedDelay } from './rate-limit.ts';
import { type HttpResponse, readHeader } from './response.ts';
import { decideRetry, mayHaveBeenApplied, type RetryState, type WaitReason } from './retry.ts';
import type { ServiceState } from './service-state.ts';

// A call: wait until the rate limit allows a request, send it, learn from the response, and decide whether to send it again
// (docs/client-behavior.md, docs/service.md 8.4). Times are in milliseconds.

/** A wait before an attempt. `until` is the end of the wait, since the epoch; `status` is that of a server error. */
export type WaitEvent = { reason: WaitReason; milliseconds: number; until: number; status?: number };

/** An attempt that has ended, as `--debug` reports it, and how long it took. */
export type AttemptEvent = { request: HttpRequest; outcome: AttemptOutcome; milliseconds: number };

type HttpRequest = Pick<Attempt, 'method' | 'url' | 'headers' | 'body'>;

export type RequestOptions = {
  transport: Transport;
  state: ServiceState;
  clock: SteadyClock;
  /** Reports a wait, and resolves after it. Rejects with the signal's reason as soon as the signal is aborted. */
  wait(wait: WaitEvent, signal: AbortSignal): Promise<void>;
  /** A random number, uniform in [0, 1). */
  random(): number;
  /** Interrupts the call. Its reason must be an InterruptedError. */
  signal: AbortSignal;
  /** The time limit for an attempt. */
  timeoutMilliseconds: number;
  /** When all calls must be done, by `clock.elapsed()`. */
  deadline?: number | undefined;
  /** The longest wait before an attempt, without its random part; undefined if calls must not wait or be retried. */
  maxWaitMilliseconds: number | undefined;
  /** Whether the service is on this machine. Then a refused connection means that the service does not run. */
  isLocal: boolean;
  onAttempt?: ((attempt: AttemptEvent) => void) | undefined;
};

export type RequestPolicy = Pick<RetryState, 'idempotent'> & {
  isSuccess(status: number): boolean;
  /** Whether to send even during a pause, but then only once a minute. The response can end or replace the pause. */
  ignorePause: boolean;
  sendLog?: SendLog | undefined;
};

/** A crash-safe record of requests that may have been applied. If one of its methods rejects, the call is aborted. */
type SendLog = {
  /** Called right before each attempt, after any wait. */
  intent(): Promise<void>;
  /** Called after an attempt without success if no attempt can have been applied. `status` is that of the response. */
  notApplied(status?: number): Promise<void>;
};

/** How long an Idempotency-Key may be sent again: an hour less than the service keeps it, because clocks differ. */
export const IDEMPOTENT_RETRY_MS = IDEMPOTENCY_KEY_LIFETIME_MS - 3_600_000;

/**
 * Sends a request until it succeeds, `decideRetry` excludes another attempt, a shared pause is too long to wait for, no
 * time is left, or `signal` is aborted. A ClientError and an InterruptedError become part of the result; any other error is
 * thrown. `ambiguous`: whether an attempt that did not succeed may have been applied.
 */
export async function requestWithRetry(
  options: RequestOptions,
  request: HttpRequest,
  policy: RequestPolicy,
): Promise<{ outcome: AttemptOutcome; ambiguous: boolean }> {
  const { transport, state, clock, signal } = options;
  const { idempotent, isSuccess, sendLog } = policy;
  const ignorePause = policy.ignorePause && state.tryAcquireProbe();
  const startedAt = clock.now();
  let ambiguous = false;
  try {
    for (let attempt = 1; ; ) {
      // A creation waits for pauses before it is in `sendLog` or has a connection: the service could close an idle connection
      // just as the creation is sent, and the outcome would be unknown. Other requests wait only if `canSend` returns false.
      if (!idempotent && !ignorePause) await waitForPause(options);
      const timeout = Math.min(options.timeoutMilliseconds, timeLeft(options));
      if (timeout <= 0)
        throw new NetworkError('no time is left for the request', { code: 'timeout', sent: false });
      await sendLog?.intent();
      const canSend = () => ignorePause || state.pausedUntil() === undefined;
      const sentAt = clock.now();
      const outcome = await transport.send({ ...request, timeout, signal, canSend });
      if (outcome === undefined) {
        if (!ambiguous) await sendLog?.notApplied();
        await waitForPause(options);
        continue;
      }
      options.onAttempt?.({ request, outcome, milliseconds: clock.now() - sentAt });
      if ('response' in outcome) {
        updateServiceState(options, outcome.response, ignorePause);
        if (isSuccess(outcome.response.status)) return { outcome, ambiguous };
      }
      ambiguous ||= mayHaveBeenApplied(outcome);
      const status = 'response' in outcome ? outcome.response.status : undefined;
      if (!ambiguous) await sendLog?.notApplied(status);
      const now = clock.now();
      const decision = decideRetry(outcome, {
        idempotent,
        supportsIdempotency: state.supportsIdempotency() && now - startedAt < IDEMPOTENT_RETRY_MS,
        ambiguous,
        attempt,
        maxWait: longestWait(options),
        isLocal: options.isLocal,
        now,
      });
      if (decision === undefined) return { outcome, ambiguous };
      await wait(options, decision.wait, decision.reason, status);
      attempt++;
    }
  } catch (error) {
    if (!(error instanceof ClientError || error instanceof InterruptedError)) throw error;
    return { outcome: { error }, ambiguous };
  }
}

const timeLeft = ({ deadline = Number.POSITIVE_INFINITY, clock }: RequestOptions): number =>
  deadline - clock.elapsed();

/** The longest wait that is allowed now; undefined if calls must not wait. */
const longestWait = (options: RequestOptions): number | undefined =>
  options.maxWaitMilliseconds && Math.max(0, Math.min(options.maxWaitMilliseconds, timeLeft(options)));

/** Waits until no shared pause is left. @throws RateLimitError if a pause is too long, InterruptedError */
async function waitForPause(options: RequestOptions): Promise<void> {
  const { state, clock, signal } = options;
  for (;;) {
    if (signal.aborted) throw new InterruptedError();
    const until = state.pausedUntil();
    if (until === undefined) return;
    const delay = until - clock.now();
    const maxWait = longestWait(options);
    if (maxWait === undefined || delay > maxWait) throw new RateLimitError(until);
    await wait(options, delay, 'rate limit');
  }
}

/** Waits for `delay` and a random time, so that processes do not send at the same time. */
async function wait(
  options: RequestOptions,
  delay: number,
  reason: WaitReason,
  status?: number,
): Promise<void> {
  // The random time is up to 10 % of the delay, but up to 250 ms after a short delay, and at most 3 s.
  const milliseconds = delay + options.random() * Math.min(Math.max(0.1 * delay, 250), 3_000);
  const until = options.clock.now() + milliseconds;
  const event = { reason, milliseconds, until, ...(reason === 'server error' && status && { status }) };
  await options.wait(event, options.signal);
}

/** Stores what the response says about later requests, for all processes of this user. */
function updateServiceState(
  { state, clock }: RequestOptions,
  response: HttpResponse,
  ignorePause: boolean,
): void {
  const { status, code } = response;
  const isBelow300 = status < 300;
  const now = clock.now();
  // A ban may have been lifted during a pause: a success ends all pauses, a 429 that requests a delay replaces them.
  const isCurrent = isBelow300 || (status === 429 && requestedDelay(response.headers, now) !== undefined);
  if (ignorePause && isCurrent) state.endPauses();
  const coolDown = coolDownAfter(response, now);
  if (coolDown !== undefined) state.startPause(coolDown);
  const supportsIdempotency = readHeader(response.headers, header.idempotencySupported) === 'true';
  // A missing Idempotency-Supported shows that there is no support only in a success, or in a 5xx with a code that is not of
  // `isNotCarriedOut`. Others may come from a proxy, or from a service that refused the request before it read the API key.
  const isFromService = isBelow300 || (status >= 500 && code !== undefined && !isNotCarriedOut(response));
  if (isFromService || supportsIdempotency) state.recordIdempotencySupport(supportsIdempotency);
}
