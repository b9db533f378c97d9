import type { Clock } from '../contract/clock.ts';
import { isNotCarriedOut } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import { IDEMPOTENCY_KEY_LIFETIME_MS } from '../contract/idempotency-key.ts';
import type { Attempt, AttemptOutcome, Timings, Transport } from './attempt.ts';
import {
  ClientError,
  ContractError,
  DeferredError,
  InterruptedError,
  NoResponseError,
  RateLimitError,
} from './errors.ts';
import { type HttpResponse, parseErrorBody, readHeader } from './response.ts';
import {
  budgetCost,
  coolDownAfter,
  decideRetry,
  isInProgress,
  neededMaxWait,
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
  /** The limit for the sum of all waits of one call; undefined if calls must not be retried. */
  maxWaitMilliseconds: number | undefined;
  /** Give up early after refused connections: the service is on this machine, and a user is waiting at a terminal. */
  failsFastIfRefused: boolean;
  onWait?: ((wait: WaitEvent) => void) | undefined;
  onAttempt?: ((attempt: AttemptEvent) => void) | undefined;
};

/** How to retry and record a request. */
export type RequestPolicy = Pick<RetryState, 'idempotent' | 'background'> & {
  isSuccess(status: number): boolean;
  /** Sends during a cool-down too, at most once a minute (`ServiceState.tryAcquireProbe`). A success ends the cool-down. */
  ignoreCoolDown: boolean;
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
  const { idempotent, background, isSuccess, sendLog } = policy;
  const ignoreCoolDown = policy.ignoreCoolDown && service.tryAcquireProbe();
  const budget = { waited: 0, maxWait: options.maxWaitMilliseconds ?? -1, background };
  const startedAt = clock.now();
  let ambiguous = false;
  try {
    for (let attempt = 1; ; ) {
      if (!ignoreCoolDown) await waitForCoolDown(options, budget);
      await sendLog?.intent();
      const canSend = () => ignoreCoolDown || service.coolDown.until() <= clock.now();
      const { outcome, timings } = await transport.send({
        ...request,
        timeoutMilliseconds,
        signal,
        isSuccess,
        canSend,
      });
      if ('error' in outcome && outcome.error instanceof DeferredError) {
        // Another request extended the cool-down while this attempt was connecting.
        if (!ambiguous) await sendLog?.notSent();
        continue;
      }
      options.onAttempt?.({ request, outcome, timings });
      if ('response' in outcome) {
        updateServiceState(options, outcome.response, { attempt, ignoreCoolDown });
        if (isSuccess(outcome.response.status)) return { outcome, ambiguous };
      }
      ambiguous ||= mayHaveBeenApplied(outcome);
      if (!ambiguous) await sendLog?.notSent('response' in outcome ? outcome.response.status : undefined);
      const now = clock.now();
      const decision = decideRetry(outcome, {
        ...budget,
        idempotent,
        supportsIdempotency: service.supportsIdempotency() && now - startedAt < IDEMPOTENT_RETRY_MS,
        ambiguous,
        attempt,
        failsFastIfRefused,
        now,
        random: options.random(),
      });
      if (!decision.retry) return { outcome, ambiguous, neededMaxWait: decision.neededMaxWait };
      await wait(options, budget, decision);
      attempt++;
    }
  } catch (error) {
    if (!(error instanceof ClientError)) throw error;
    return { outcome: { error }, ambiguous };
  }
}

type Budget = Pick<RetryState, 'waited' | 'maxWait' | 'background'>;

/** Waits until the cool-down that this user's processes share has passed. */
async function waitForCoolDown(options: RequestOptions, budget: Budget): Promise<void> {
  const { service, clock, random, signal } = options;
  for (;;) {
    if (signal.aborted) throw new InterruptedError();
    const until = service.coolDown.until();
    const remaining = until - clock.now();
    if (remaining <= 0) return;
    const milliseconds = withJitter(remaining, random());
    const cost = budgetCost(milliseconds, budget);
    if (cost === undefined)
      throw new RateLimitError(until, { neededMaxWait: neededMaxWait(milliseconds, budget) });
    await wait(options, budget, { wait: milliseconds, cost, reason: 'rate limit' });
  }
}

async function wait(
  { clock, sleep, signal, onWait }: RequestOptions,
  budget: Budget,
  { wait: milliseconds, cost, reason }: { wait: number; cost: number; reason: WaitReason },
): Promise<void> {
  onWait?.({ reason, milliseconds, until: clock.now() + milliseconds });
  try {
    await sleep(milliseconds, signal);
  } catch (error) {
    throw signal.aborted ? new InterruptedError() : error;
  }
  budget.waited += cost;
}

/** Stores what the response says about later requests, for all processes of this user. */
function updateServiceState(
  { service, clock }: RequestOptions,
  response: HttpResponse,
  { attempt, ignoreCoolDown }: { attempt: number; ignoreCoolDown: boolean },
): void {
  const { status } = response;
  const isSuccess = status < 300;
  if (ignoreCoolDown && isSuccess) service.coolDown.clear();
  const coolDown = coolDownAfter(response, attempt, clock.now());
  if (coolDown !== undefined) service.coolDown.extend(clock.now() + coolDown);
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
