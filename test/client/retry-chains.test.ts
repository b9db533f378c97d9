import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { AttemptOutcome } from '../../src/client/attempt.ts';
import { requestWithRetry } from '../../src/client/request-with-retry.ts';
import { coolDownAfter, decideRetry } from '../../src/client/retry.ts';
import { createServiceState } from '../../src/client/service-state.ts';
import { createMemoryFlags } from '../../src/client/shared-flags.ts';
import { cases } from '../helpers/cases.ts';
import { manualClock } from '../helpers/clock.ts';
import { NOW, networkError, response, state, timeout } from '../helpers/outcomes.ts';

// Random headers with the delay that they request, computed independently of the code under test.

/** `delay` is in milliseconds from NOW; undefined if the text is invalid. */
type Value = { text: string; delay: number | undefined };

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const dateFormats = {
  fixdate: (time: number) => new Date(time).toUTCString(),
  rfc850: (time: number) => {
    const [, day, month, year = '', clock] = new Date(time).toUTCString().split(' ');
    return `${DAYS[new Date(time).getUTCDay()]}, ${day}-${month}-${year.slice(2)} ${clock} GMT`;
  },
  asctime: (time: number) => {
    const [weekday = '', day = '', month, year, clock] = new Date(time).toUTCString().split(' ');
    return `${weekday.slice(0, 3)} ${month} ${day.replace(/^0/, ' ')} ${clock} ${year}`;
  },
};

const someSeconds = fc.oneof(fc.integer({ min: -100, max: 200 }), fc.integer({ min: 0, max: 1e9 }));
const invalidTexts = fc
  .oneof(fc.string(), fc.constantFrom('-5', '1e3', '0x10', '5 s', '+5', '5.', 'NaN'))
  .map((text) => (/^\s*\d+(\.\d+)?\s*$|,/.test(text) ? 'soon' : text));
const invalid = invalidTexts.map((text): Value => ({ text, delay: undefined }));
const inSeconds = someSeconds.map(
  (seconds): Value => ({ text: String(seconds), delay: seconds < 0 ? undefined : seconds * 1_000 }),
);
const asDate = fc
  .tuple(fc.integer({ min: -100, max: 100_000 }), fc.constantFrom(...Object.values(dateFormats)))
  .map(
    ([seconds, format]): Value => ({
      text: format(NOW + seconds * 1_000),
      delay: Math.max(0, seconds * 1_000),
    }),
  );
const resets = fc.tuple(someSeconds, fc.constantFrom(1, 1_000)).map(
  ([seconds, unit]): Value => ({
    text: String((NOW / 1_000 + seconds) * unit),
    delay: Math.max(0, seconds * 1_000),
  }),
);

/** A header that may be repeated, or joined into one line, with its longest delay. */
const header = (value: fc.Arbitrary<Value>) =>
  fc.tuple(fc.array(value, { maxLength: 3 }), fc.boolean()).map(([all, isJoined]) => {
    const texts = all.map(({ text }) => text);
    const delays = all.map(({ delay }) => delay).filter((delay) => delay !== undefined);
    return {
      value: isJoined && texts.length > 0 ? texts.join(', ') : texts,
      delay: delays.length === 0 ? undefined : Math.max(...delays),
    };
  });

const isInProgress = (status: number, code: string | undefined) =>
  status === 409 && code === 'idempotency_in_flight';

const responses = fc
  .record({
    status: fc.oneof(fc.constantFrom(200, 201, 409, 429, 503), fc.integer({ min: 200, max: 599 })),
    after: header(fc.oneof(invalid, inSeconds, asDate)),
    reset: header(fc.oneof(invalid, resets)),
    remaining: fc.constantFrom('0', '00', '-1', '1', '17', 'none', undefined),
    code: fc.constantFrom('idempotency_in_flight', 'storage_full', 'other', undefined),
  })
  .map(({ status, after, reset, remaining, code }) => {
    const headers = {
      'retry-after': after.value,
      'x-ratelimit-reset': reset.value,
      'x-ratelimit-remaining': remaining,
      date: dateFormats.fixdate(NOW),
      other: 'x',
    };
    const isExhausted = remaining !== undefined && Number(remaining) <= 0;
    const requested = after.delay ?? reset.delay ?? 0;
    return {
      outcome: response(status, headers, code),
      /** Minimum delays before this request may be repeated, and before any other may be sent. */
      floor: status === 429 ? requested : (after.delay ?? 0),
      coolDown: status === 429 ? requested : isExhausted ? (reset.delay ?? 0) : 0,
      isAmbiguous:
        status <= 303 ||
        status === 408 ||
        (status >= 500 && !(status === 503 && code === 'storage_full')) ||
        isInProgress(status, code),
    };
  });
const errors = fc
  .record({ isAmbiguous: fc.boolean(), isTimeout: fc.boolean() })
  .map(({ isAmbiguous, isTimeout }) => ({
    outcome: isTimeout ? timeout(isAmbiguous) : networkError('ECONNRESET', isAmbiguous),
    floor: 0,
    coolDown: 0,
    isAmbiguous,
  }));
const outcomes = fc.oneof({ weight: 3, arbitrary: responses }, { weight: 1, arbitrary: errors });
const randoms = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const MAX_TIMER_MS = 2 ** 31 - 1;

test('a decision waits at least as long as requested, and no longer than allowed or than a timer can', () => {
  const states = fc.record({
    idempotent: fc.boolean(),
    supportsIdempotency: fc.boolean(),
    ambiguous: fc.boolean(),
    background: fc.boolean(),
    attempt: fc.integer({ min: 1, max: 12 }),
    waited: fc.integer({ min: 0, max: 1e9 }),
    maxWait: fc.oneof(fc.integer({ min: -1, max: 200_000 }), fc.integer({ min: 0, max: 1e9 })),
    now: fc.constant(NOW),
    random: randoms,
  });
  fc.assert(
    fc.property(outcomes, states, ({ outcome, floor }, given) => {
      const decision = decideRetry(outcome, given);
      if (!decision.retry) return;
      expect(decision.wait).toBeGreaterThanOrEqual(floor);
      expect(decision.wait).toBeLessThanOrEqual(MAX_TIMER_MS);
      if (!given.background) expect(decision.cost).toBe(decision.wait);
      if (decision.cost > 0) expect(given.waited + decision.cost).toBeLessThanOrEqual(given.maxWait);
    }),
    { numRuns: cases(3_000) },
  );
});

test('a call is never sent too early, never waits longer than allowed, and never repeats an ambiguous creation', async () => {
  const calls = fc.record({
    chain: fc.array(outcomes, { minLength: 1, maxLength: 12 }),
    idempotent: fc.boolean(),
    background: fc.boolean(),
    // At most a day: a cool-down is limited to 25 hours.
    maxWait: fc.oneof(fc.constant(75_000), fc.integer({ min: 0, max: 86_400_000 })),
    random: randoms,
  });
  await fc.assert(
    fc.asyncProperty(calls, async ({ chain, idempotent, background, maxWait, random }) => {
      const clock = manualClock(new Date(NOW).toISOString());
      const sent: { at: number; result: (typeof chain)[number] }[] = [];
      const slept: number[] = [];
      const service = { baseUrl: 'https://shop.example/v1', key: 'pets_key' };
      const options = {
        transport: {
          async send() {
            const result = chain[Math.min(sent.length, chain.length - 1)] as (typeof chain)[number];
            sent.push({ at: clock.now(), result });
            return { outcome: result.outcome, timings: { whole: 0 } };
          },
          close: async () => {},
        },
        service: createServiceState(service, createMemoryFlags(), clock),
        clock,
        async sleep(milliseconds: number) {
          slept.push(milliseconds);
          clock.advance(milliseconds);
        },
        random: () => random,
        signal: new AbortController().signal,
        timeoutMilliseconds: 30_000,
        maxWaitMilliseconds: maxWait,
      };
      const request = { method: 'GET', url: new URL(service.baseUrl), headers: {} } as const;
      const success = idempotent ? 200 : 201;
      const isSuccessStatus = (status: number) => status === success;
      const policy = { idempotent, isSuccess: isSuccessStatus, background, ignoreCoolDown: false };
      const { ambiguous } = await requestWithRetry(options, request, policy);

      for (const [index, { at }] of sent.entries()) {
        for (const earlier of sent.slice(0, index)) {
          expect(at).toBeGreaterThanOrEqual(earlier.at + earlier.result.coolDown);
        }
        const last = sent[index - 1];
        if (last === undefined) continue;
        expect(at).toBeGreaterThanOrEqual(last.at + last.result.floor);
        if (!idempotent) expect(last.result.isAmbiguous).toBe(false);
      }
      expect(sent.length).toBeLessThanOrEqual(4);
      expect(Math.max(0, ...slept)).toBeLessThanOrEqual(MAX_TIMER_MS);
      if (!background) expect(slept.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(maxWait);
      if (!isSuccess(sent.at(-1)?.result.outcome, success)) {
        expect(ambiguous).toBe(sent.some(({ result }) => result.isAmbiguous));
      }
    }),
    { numRuns: cases(1_000) },
  );
});

test('no header makes a decision throw', () => {
  const values = fc.oneof(fc.string(), fc.array(fc.string(), { maxLength: 3 }), fc.constant(undefined));
  const names = ['retry-after', 'x-ratelimit-reset', 'x-ratelimit-remaining', 'date', 'content-type'];
  const headers = fc.record(Object.fromEntries(names.map((name) => [name, values])));
  fc.assert(
    fc.property(headers, fc.integer({ min: 100, max: 999 }), fc.string(), (given, status, body) => {
      decideRetry({ response: { status, headers: given, body } }, state);
      coolDownAfter({ status, headers: given, body }, 1, NOW);
    }),
  );
});

function isSuccess(outcome: AttemptOutcome | undefined, status: number): boolean {
  return outcome !== undefined && 'response' in outcome && outcome.response.status === status;
}
