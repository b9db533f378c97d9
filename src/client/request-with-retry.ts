import type { Clock } from '../contract/clock.ts';
import { isNotCarriedOut } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import { IDEMPOTENCY_KEY_LIFETIME_MS } from '../contract/idempotency-key.ts';
import type { Attempt, AttemptOutcome, Timings, Transport } from './attempt.ts';
import {
  ApiFailure,
  ClientError,
  ContractError,
  DeferredError,
  InterruptedError,
  NoResponseError,
  RateLimitError,
} from './errors.ts';
import { readHeader } from './headers.ts';
import { type HttpResponse, parseErrorBody } from './response.ts';
import {
  coolDownAfter,
  decideRetry,
  isInProgress,
  methodPauseAfter,
  type RetryState,
  type WaitReason,
  withJitter,
} from './retry.ts';
import type { ServiceState } from './service-state.ts';

/** A wait before an attempt. `until` is the end of the wait, in milliseconds since the epoch. */
export type WaitEvent = { reason: WaitReason; milliseconds: number; until: number };

/** An attempt that has ended, as `--debug` reports it. */
export type AttemptEvent = { request: HttpRequest; outcome: AttemptOutcome; timings: Timings };

export type HttpRequest = Pick<Attempt, 'method' | 'url' | 'headers' | 'body'>;

export type RequestOptions = {
  transport: Transport;
  service: ServiceState;
  clock: Clock;
  /** Rejects with the signal's reason as soon as the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** A random number, uniform in [0, 1). */
  random(): number;
  signal: AbortSignal;
  /** The timeout of each attempt. */
  timeoutMilliseconds: number;
  /** The longest wait before an attempt; undefined if calls must not wait or be retried. */
  maxWaitMilliseconds: number | undefined;
  /** Give up early after refused connections: the service is on this machine, and a user is waiting at a terminal. */
  failsFastIfRefused: boolean;
  onWait?: ((wait: WaitEvent) => void) | undefined;
  onAttempt?: ((attempt: AttemptEvent) => void) | undefined;
};

/** How to retry and record a request. */
export type RequestPolicy = Pick<RetryState, 'idempotent'> & {
  isSuccess(status: number): boolean;
  /** Sends during a pause too, at most once a minute (`ServiceState.tryAcquireProbe`). A success ends the pause. */
  ignorePause: boolean;
  sendLog?: SendLog | undefined;
};

/** A crash-safe record of requests that may have been applied. If one of its methods rejects, the call is aborted. */
export type SendLog = {
  /** Called right before each attempt, after any wait. */
  intent(): Promise<void>;
  /**
   * Called after an unsuccessful attempt if no attempt of this call can have been applied. `status` is the status of the
   * response, if there was one.
   */
  notSent(status?: number): Promise<void>;
};

/**
 * The outcome of a call. `ambiguous` is true if an attempt may have been applied although no response confirms it.
 * `neededMaxWait` is set if only `maxWaitMilliseconds` excluded another attempt (see `RetryDecision`).
 */
export type SendResult = { outcome: AttemptOutcome; ambiguous: boolean; neededMaxWait?: number | undefined };

/** How long an Idempotency-Key may be sent again. The service keeps the key an hour longer, because clocks differ. */
export const IDEMPOTENT_RETRY_MS = IDEMPOTENCY_KEY_LIFETIME_MS - 3_600_000;

/**
 * Sends a request until it succeeds or `decideRetry` excludes another attempt. A ClientError becomes part of the
 * result; any other error is thrown.
 */
export async function requestWithRetry(
  options: RequestOptions,
  request: HttpRequest,
  policy: RequestPolicy,
): Promise<SendResult> {
  const { transport, service, clock, signal, timeoutMilliseconds, failsFastIfRefused } = options;
  const { idempotent, isSuccess, sendLog } = policy;
  const ignorePause = policy.ignorePause && service.tryAcquireProbe();
  const startedAt = clock.now();
  let ambiguous = false;
  try {
    for (let attempt = 1; ; ) {
      if (!ignorePause) await waitForPause(options, request.method);
      await sendLog?.intent();
      const canSend = () => ignorePause || service.pause(request.method) === undefined;
      const { outcome, timings } = await transport.send({
        ...request,
        timeoutMilliseconds,
        signal,
        isSuccess,
        canSend,
      });
      if ('error' in outcome && outcome.error instanceof DeferredError) {
        // Another request has started a pause while this attempt was connecting.
        if (!ambiguous) await sendLog?.notSent();
        continue;
      }
      options.onAttempt?.({ request, outcome, timings });
      if ('response' in outcome) {
        updateServiceState(options, request.method, outcome.response, ignorePause);
        if (isSuccess(outcome.response.status)) return { outcome, ambiguous };
      }
      ambiguous ||= mayHaveBeenApplied(outcome);
      if (!ambiguous) await sendLog?.notSent('response' in outcome ? outcome.response.status : undefined);
      const now = clock.now();
      const decision = decideRetry(outcome, {
        idempotent,
        supportsIdempotency: service.supportsIdempotency() && now - startedAt < IDEMPOTENT_RETRY_MS,
        ambiguous,
        attempt,
        maxWait: options.maxWaitMilliseconds,
        failsFastIfRefused,
        now,
        random: options.random(),
      });
      if (!decision.retry) return { outcome, ambiguous, neededMaxWait: decision.neededMaxWait };
      await wait(options, decision);
      attempt++;
    }
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    return { outcome: { error }, ambiguous };
  }
}

/** Waits for the end of the pause that this user's processes share. */
async function waitForPause(options: RequestOptions, method: string): Promise<void> {
  const { service, clock, random, signal, maxWaitMilliseconds: maxWait } = options;
  for (;;) {
    if (signal.aborted) throw new InterruptedError();
    const pause = service.pause(method);
    if (pause === undefined) return;
    const { until, reason } = pause;
    const delay = until - clock.now();
    if (maxWait === undefined || delay > maxWait) {
      if (reason === 'rate limit')
        throw new RateLimitError(until, { neededMaxWait: maxWait === undefined ? undefined : delay });
      const seconds = Math.ceil(delay / 1_000);
      const message = `an earlier response asked to wait for another ${seconds} s, so the request was not sent`;
      throw new ApiFailure(503, { message });
    }
    await wait(options, { wait: withJitter(delay, random()), reason });
  }
}

async function wait(
  { clock, sleep, signal, onWait }: RequestOptions,
  { wait: milliseconds, reason }: { wait: number; reason: WaitReason },
): Promise<void> {
  onWait?.({ reason, milliseconds, until: clock.now() + milliseconds });
  try {
    await sleep(milliseconds, signal);
  } catch (error) {
    throw signal.aborted ? new InterruptedError() : error;
  }
}

/** Stores what the response says about later requests, for all processes of this user. */
function updateServiceState(
  { service, clock }: RequestOptions,
  method: string,
  response: HttpResponse,
  ignorePause: boolean,
): void {
  const { status } = response;
  const isSuccess = status < 300;
  if (ignorePause && isSuccess) service.endPauses();
  const coolDown = coolDownAfter(response, clock.now());
  if (coolDown !== undefined) service.startPause(coolDown);
  const methodPause = methodPauseAfter(response, clock.now());
  if (methodPause !== undefined) service.startPause(methodPause, method);
  const supportsIdempotency = readHeader(response.headers, header.idempotencySupported) === 'true';
  // A missing Idempotency-Supported header proves nothing in a 5xx without an Error body, which may come from a proxy, or if
  // the request was refused before its API key was read.
  const error = isSuccess || status < 500 ? undefined : parseErrorBody(response);
  const isFromService = isSuccess || (error && !isNotCarriedOut({ status, code: error.code }));
  if (isFromService || supportsIdempotency) service.recordIdempotencySupport(supportsIdempotency);
}

/** Whether the service may have applied a request to which it did not respond with success. */
function mayHaveBeenApplied(outcome: AttemptOutcome): boolean {
  if ('response' in outcome) {
    const { status } = outcome.response;
    if (isNotCarriedOut({ status, code: parseErrorBody(outcome.response)?.code })) return false;
    // 301, 302 and 303 may redirect to a page about the applied request. 307 and 308 only ask for another URL.
    return status <= 303 || status >= 500 || status === 408 || isInProgress(outcome.response);
  }
  const { error } = outcome;
  return error instanceof ContractError || (error instanceof NoResponseError && error.sent);
}
