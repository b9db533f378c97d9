import type { Clock } from '../contract/clock.ts';
import { header } from '../contract/headers.ts';
import { IDEMPOTENCY_MILLISECONDS } from '../contract/idempotency-key.ts';
import type { Attempt, Outcome, Reply, Times } from './attempt.ts';
import { ClientError, ContractError, HeldBackError, InterruptedError, RateLimitError } from './errors.ts';
import { readHeader } from './headers.ts';
import type { KnownService } from './known-service.ts';
import { readError } from './reply.ts';
import { costOf, decideRetry, isInProgress, restAfter, type WaitReason, withJitter } from './retry.ts';
import type { Transport } from './transport.ts';

/** `until` is in milliseconds since the epoch. */
export type Wait = { reason: WaitReason; milliseconds: number; until: number };

/** One attempt that was made: for `--debug`. */
export type Attempted = { request: Request; outcome: Outcome; times: Times };

export type Request = Pick<Attempt, 'method' | 'url' | 'headers' | 'body'>;

export type SenderOptions = {
  transport: Transport;
  service: KnownService;
  clock: Clock;
  /** Ends early, and rejects, when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** Uniform in [0, 1). */
  random(): number;
  signal: AbortSignal;
  timeoutMilliseconds: number;
  /** What one call may wait in all; undefined where it never tries again. */
  maxWaitMilliseconds: number | undefined;
  onWait?: ((wait: Wait) => void) | undefined;
  onAttempted?: ((attempted: Attempted) => void) | undefined;
};

/** How a request may be treated; `success` is the status that needs no thought. */
export type Conduct = {
  repeatable: boolean;
  success: number;
  paced: boolean;
  probe: boolean;
  record?: SendRecord | undefined;
};

/** Who must know, even after a kill, what may have been carried out. What it throws ends the call. */
export type SendRecord = {
  /** Right before an attempt is sent, behind every wait. */
  sending(): Promise<void>;
  /** Nothing that was sent has been carried out. */
  withdrawn(): Promise<void>;
};

/**
 * What the last attempt came to, and until when it asks to wait, in milliseconds since the epoch. `doubted` tells
 * whether any of the attempts may have been carried out although no answer says so.
 */
export type Final = { outcome: Outcome; until: number; doubted: boolean };

/** Sends a request until there is an outcome to keep. Never rejects for what a ClientError tells. */
export type Sender = (request: Request, conduct: Conduct) => Promise<Final>;

/** How long a creation may be repeated: an hour of what a service remembers is kept for clocks that differ. */
export const REPEATABLE_FOR = IDEMPOTENCY_MILLISECONDS - 3_600_000;

/** The loop: it sends and sleeps, and decides nothing. */
export function createSender(options: SenderOptions): Sender {
  const { transport, service, clock, random, signal } = options;
  const maxWait = options.maxWaitMilliseconds ?? -1;

  return async (request, { repeatable, success, paced, probe: isAsked, record }) => {
    const probe = isAsked && service.mayProbe();
    const started = clock.now();
    let waited = 0;
    let doubted = false;
    try {
      for (let attempt = 1; ; ) {
        if (!probe) await rest();
        await record?.sending();
        const { outcome, times } = await transport.send({
          ...request,
          timeoutMilliseconds: options.timeoutMilliseconds,
          signal,
          mayStart: () => probe || service.coolDown.until() <= clock.now(),
        });
        if (isHeldBack(outcome)) {
          if (!doubted) await record?.withdrawn();
          continue;
        }
        options.onAttempted?.({ request, outcome, times });
        if ('reply' in outcome) note(outcome.reply, attempt, probe);
        const now = clock.now();
        if ('reply' in outcome && outcome.reply.status === success) return { outcome, until: now, doubted };
        doubted ||= mayHaveSucceeded(outcome);
        if (!doubted) await record?.withdrawn();
        const honoured = service.honoursIdempotency() && now - started < REPEATABLE_FOR;
        const state = {
          repeatable,
          honoured,
          doubted,
          attempt,
          waited,
          maxWait,
          paced,
          now,
          random: random(),
        };
        const decision = decideRetry(outcome, state);
        if (!decision.retry) return { outcome, until: now + (decision.wait ?? 0), doubted };
        await pause(decision.wait, decision.cost, decision.reason);
        attempt++;
      }
    } catch (failure) {
      if (!(failure instanceof ClientError)) throw failure;
      return { outcome: { failure }, until: clock.now(), doubted };
    }

    /** Waits until no process of this user has been asked to wait any more. */
    async function rest(): Promise<void> {
      for (;;) {
        if (signal.aborted) throw new InterruptedError();
        const until = service.coolDown.until();
        const left = until - clock.now();
        if (left <= 0) return;
        const wait = withJitter(left, random());
        const cost = costOf(wait, { waited, maxWait, paced });
        if (cost === undefined) throw new RateLimitError(until);
        await pause(wait, cost, 'rate limit');
      }
    }

    async function pause(wait: number, cost: number, reason: WaitReason): Promise<void> {
      options.onWait?.({ reason, milliseconds: wait, until: clock.now() + wait });
      await options.sleep(wait, signal);
      waited += cost;
    }
  };

  /** Keeps what a reply says about the next ones, for this process and the others. */
  function note(reply: Reply, attempt: number, probe: boolean): void {
    const isSuccess = reply.status < 300;
    if (probe && isSuccess) service.coolDown.clear();
    const rest = restAfter(reply, attempt, clock.now());
    if (rest !== undefined) service.coolDown.note(clock.now() + rest);
    const isHonoured = readHeader(reply.headers, header.idempotencySupported) === 'true';
    // A failure without an Error body comes from something that stands in between and knows nothing of it.
    const isItsOwn = isSuccess || (reply.status >= 500 && readError(reply) !== undefined);
    if (isItsOwn || isHonoured) service.noteIdempotency(isHonoured);
  }
}

const isHeldBack = (outcome: Outcome): boolean =>
  'failure' in outcome && outcome.failure instanceof HeldBackError;

/** Whether a request that was not answered with a success may have been carried out all the same. */
function mayHaveSucceeded(outcome: Outcome): boolean {
  if ('reply' in outcome) {
    const { status } = outcome.reply;
    // These send a browser to a page that may tell of what was done; 307 and 308 say that it is to be done elsewhere.
    return status <= 303 || status >= 500 || status === 408 || isInProgress(outcome.reply);
  }
  const { failure } = outcome;
  return failure instanceof ContractError || ('sent' in failure && failure.sent === true);
}
