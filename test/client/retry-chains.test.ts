import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Attempt, AttemptOutcome } from '../../src/client/attempt.ts';
import { requestWithRetry, type WaitEvent } from '../../src/client/call.ts';
import { createServiceState } from '../../src/client/service-state.ts';
import { cases } from '../helpers/cases.ts';
import { manualClock, uptimeOf } from '../helpers/clock.ts';
import { NOW, networkError, response, timeout } from '../helpers/outcomes.ts';

/** Minimum delays in milliseconds: `floor` before this request is repeated, and `coolDown` before any other request. */
type Step = { outcome: AttemptOutcome; floor: number; coolDown: number; isAmbiguous: boolean };

const isInProgress = (status: number, code: string | undefined) =>
  status === 409 && code === 'idempotency_in_flight';
const anySeconds = fc.oneof(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 0, max: 1e9 }));

const responses = fc
  .record({
    status: fc.oneof(fc.constantFrom(200, 201, 409, 429, 503), fc.integer({ min: 200, max: 599 })),
    after: fc.option(anySeconds, { nil: undefined }),
    reset: fc.option(anySeconds, { nil: undefined }),
    remaining: fc.constantFrom('0', '17', undefined),
    code: fc.constantFrom('idempotency_in_flight', 'storage_full', 'other', undefined),
  })
  .map(({ status, after, reset, remaining, code }): Step => {
    const headers = {
      'retry-after': after?.toString(),
      'x-ratelimit-reset': reset === undefined ? undefined : String(NOW / 1_000 + reset),
      'x-ratelimit-remaining': remaining,
      date: new Date(NOW).toUTCString(),
    };
    const requested = (after ?? reset ?? 0) * 1_000;
    const windowEnd = remaining === '0' ? (reset ?? 0) * 1_000 : 0;
    return {
      outcome: response(status, headers, code),
      floor: status === 429 ? requested : (after ?? 0) * 1_000,
      coolDown: status === 429 ? requested : windowEnd,
      isAmbiguous:
        (status <= 303 && status !== 301) ||
        status === 408 ||
        (status >= 500 && !(status === 503 && code === 'storage_full')) ||
        isInProgress(status, code),
    };
  });
const errors = fc
  .record({ isAmbiguous: fc.boolean(), isTimeout: fc.boolean() })
  .map(({ isAmbiguous, isTimeout }): Step => {
    const outcome = isTimeout ? timeout(isAmbiguous) : networkError('ECONNRESET', isAmbiguous);
    return { outcome, floor: 0, coolDown: 0, isAmbiguous };
  });
const steps = fc.oneof({ weight: 3, arbitrary: responses }, { weight: 1, arbitrary: errors });

test('a call is never sent too early, never waits longer than allowed, and never repeats an ambiguous creation without support of Idempotency-Key', async () => {
  const calls = fc.record({
    chain: fc.array(steps, { minLength: 1, maxLength: 12 }),
    idempotent: fc.boolean(),
    supportsIdempotency: fc.boolean(),
    // The client shortens pauses to 25 hours, so longer waits would end too early for the checks below.
    maxWait: fc.oneof(fc.constant(75_000), fc.integer({ min: 0, max: 86_400_000 })),
    random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  });
  await fc.assert(
    fc.asyncProperty(calls, async ({ chain, supportsIdempotency, maxWait, random, ...policy }) => {
      const clock = manualClock(new Date(NOW).toISOString());
      const sent: { at: number; step: Step }[] = [];
      const slept: number[] = [];
      const announced: Pick<WaitEvent, 'reason' | 'milliseconds'>[] = [];
      const service = { baseUrl: 'https://shop.example/v1', key: 'pets_key' };
      const serviceState = {
        ...createServiceState(service, { clock, uptime: uptimeOf(clock), stateDirectories: [] }),
        supportsIdempotency: () => supportsIdempotency,
      };
      const options = {
        transport: {
          async send({ canSend }: Attempt) {
            if (!canSend()) return undefined;
            const step = chain[Math.min(sent.length, chain.length - 1)] as Step;
            sent.push({ at: clock.now(), step });
            return step.outcome;
          },
          close: async () => {},
        },
        state: serviceState,
        clock,
        async wait({ reason, milliseconds }: WaitEvent) {
          announced.push({ reason, milliseconds });
          slept.push(milliseconds);
          clock.advance(milliseconds);
        },
        random: () => random,
        signal: new AbortController().signal,
        timeoutMilliseconds: 30_000,
        isLocal: false,
        maxWaitMilliseconds: maxWait,
      };
      const request = { method: 'GET', url: new URL(service.baseUrl), headers: {} } as const;
      const success = policy.idempotent ? 200 : 201;
      const isSuccess = (status: number) => status === success;
      const result = await requestWithRetry(options, request, {
        ...policy,
        isSuccess,
        ignorePause: false,
      });

      for (const [index, { at }] of sent.entries()) {
        for (const earlier of sent.slice(0, index)) {
          expect(at).toBeGreaterThanOrEqual(earlier.at + earlier.step.coolDown);
        }
        const last = sent[index - 1];
        if (last === undefined) continue;
        expect(at).toBeGreaterThanOrEqual(last.at + last.step.floor);
        if (!policy.idempotent && !supportsIdempotency) expect(last.step.isAmbiguous).toBe(false);
      }
      expect(sent.length).toBeLessThanOrEqual(6);
      const ownWaits = announced
        .filter(({ reason }) => reason === 'connection')
        .map(({ milliseconds }) => milliseconds);
      expect(ownWaits.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(15_000);
      // Jitter adds at most 10 % or a quarter of a second, whichever is more.
      for (const wait of slept) expect(wait).toBeLessThanOrEqual(Math.max(maxWait * 1.1, maxWait + 250));
      const { outcome } = result;
      if ('response' in outcome && outcome.response.status === success) return;
      expect(result.ambiguous).toBe(sent.some(({ step }) => step.isAmbiguous));
    }),
    { numRuns: cases(1_000) },
  );
});
