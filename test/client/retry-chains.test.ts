import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Outcome } from '../../src/client/attempt.ts';
import { createKnownService } from '../../src/client/known-service.ts';
import { createOwnMarks } from '../../src/client/marks.ts';
import { decideRetry, restAfter } from '../../src/client/retry.ts';
import { createSender } from '../../src/client/sender.ts';
import { manualClock } from '../helpers/clock.ts';
import { late, NOW, network, reply, state } from '../helpers/outcomes.ts';

// Headers with what they ask for, said here by itself: in milliseconds from NOW, undefined for what asks for nothing.
type Said = { text: string; asks: number | undefined };

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const forms = {
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
const nothing = fc
  .oneof(fc.string(), fc.constantFrom('-5', '1e3', '0x10', '5 s', '+5', '5.', 'NaN'))
  .map((text) => (/^\s*\d+(\.\d+)?\s*$|,/.test(text) ? 'soon' : text));
const asksNothing = nothing.map((text): Said => ({ text, asks: undefined }));
const asksSeconds = someSeconds.map(
  (seconds): Said => ({ text: String(seconds), asks: seconds < 0 ? undefined : seconds * 1_000 }),
);
const asksDate = fc
  .tuple(fc.integer({ min: -100, max: 100_000 }), fc.constantFrom(...Object.values(forms)))
  .map(
    ([seconds, form]): Said => ({ text: form(NOW + seconds * 1_000), asks: Math.max(0, seconds * 1_000) }),
  );
const asksReset = fc.tuple(someSeconds, fc.constantFrom(1, 1_000)).map(
  ([seconds, unit]): Said => ({
    text: String((NOW / 1_000 + seconds) * unit),
    asks: Math.max(0, seconds * 1_000),
  }),
);

/** A header once, doubled or joined, with the longest that it asks for. */
const header = (said: fc.Arbitrary<Said>) =>
  fc.tuple(fc.array(said, { maxLength: 3 }), fc.boolean()).map(([all, isJoined]) => {
    const texts = all.map(({ text }) => text);
    const asked = all.map(({ asks }) => asks).filter((asks) => asks !== undefined);
    return {
      value: isJoined && texts.length > 0 ? texts.join(', ') : texts,
      asks: asked.length === 0 ? undefined : Math.max(...asked),
    };
  });

const isInFlight = (status: number, code: string | undefined) =>
  status === 409 && code === 'idempotency_in_flight';

const replies = fc
  .record({
    status: fc.oneof(fc.constantFrom(200, 201, 409, 429, 503), fc.integer({ min: 200, max: 599 })),
    after: header(fc.oneof(asksNothing, asksSeconds, asksDate)),
    reset: header(fc.oneof(asksNothing, asksReset)),
    remaining: fc.constantFrom('0', '00', '-1', '1', '17', 'none', undefined),
    code: fc.constantFrom('idempotency_in_flight', 'other', undefined),
  })
  .map(({ status, after, reset, remaining, code }) => {
    const headers = {
      'retry-after': after.value,
      'x-ratelimit-reset': reset.value,
      'x-ratelimit-remaining': remaining,
      date: forms.fixdate(NOW),
      other: 'x',
    };
    const isSpent = remaining !== undefined && Number(remaining) <= 0;
    const refusedFor = after.asks ?? reset.asks ?? 0;
    return {
      outcome: reply(status, headers, code),
      /** Until when this request is not to be repeated, and until when no other is to be sent. */
      floor: status === 429 ? refusedFor : (after.asks ?? 0),
      rest: status === 429 ? refusedFor : isSpent ? (reset.asks ?? 0) : 0,
      isAmbiguous: status <= 303 || status === 408 || status >= 500 || isInFlight(status, code),
    };
  });
const failures = fc
  .record({ isAmbiguous: fc.boolean(), isLate: fc.boolean() })
  .map(({ isAmbiguous, isLate }) => ({
    outcome: isLate ? late(isAmbiguous) : network('ECONNRESET', isAmbiguous),
    floor: 0,
    rest: 0,
    isAmbiguous,
  }));
const outcomes = fc.oneof({ weight: 3, arbitrary: replies }, { weight: 1, arbitrary: failures });
const randoms = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const LONGEST_TIMER = 2 ** 31 - 1;

test('a decision is never earlier than asked, never longer than allowed, and never a timer that overflows', () => {
  const states = fc.record({
    repeatable: fc.boolean(),
    honoured: fc.boolean(),
    doubted: fc.boolean(),
    paced: fc.boolean(),
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
      expect(decision.wait).toBeLessThanOrEqual(LONGEST_TIMER);
      if (!given.paced) expect(decision.cost).toBe(decision.wait);
      if (decision.cost > 0) expect(given.waited + decision.cost).toBeLessThanOrEqual(given.maxWait);
    }),
    { numRuns: 3_000 },
  );
});

test('a whole call: never early, never longer than allowed in all, and a creation never sent again in doubt', async () => {
  const calls = fc.record({
    chain: fc.array(outcomes, { minLength: 1, maxLength: 12 }),
    repeatable: fc.boolean(),
    paced: fc.boolean(),
    // Beyond a day the others wait no longer than 25 hours.
    maxWait: fc.oneof(fc.constant(75_000), fc.integer({ min: 0, max: 86_400_000 })),
    random: randoms,
  });
  await fc.assert(
    fc.asyncProperty(calls, async ({ chain, repeatable, paced, maxWait, random }) => {
      const clock = manualClock(new Date(NOW).toISOString());
      const sent: { at: number; said: (typeof chain)[number] }[] = [];
      const slept: number[] = [];
      const service = { baseUrl: 'https://shop.example/v1', key: 'pets_key' };
      const send = createSender({
        transport: {
          async send() {
            const said = chain[Math.min(sent.length, chain.length - 1)] as (typeof chain)[number];
            sent.push({ at: clock.now(), said });
            return { outcome: said.outcome, times: { whole: 0 } };
          },
          close: async () => {},
        },
        service: createKnownService(service, createOwnMarks(), clock),
        clock,
        async sleep(milliseconds) {
          slept.push(milliseconds);
          clock.advance(milliseconds);
        },
        random: () => random,
        signal: new AbortController().signal,
        timeoutMilliseconds: 30_000,
        maxWaitMilliseconds: maxWait,
      });
      const request = { method: 'GET', url: new URL(service.baseUrl), headers: {} } as const;
      const conduct = { repeatable, success: repeatable ? 200 : 201, paced, probe: false };
      const { doubted } = await send(request, conduct);

      for (const [index, { at }] of sent.entries()) {
        for (const earlier of sent.slice(0, index)) {
          expect(at).toBeGreaterThanOrEqual(earlier.at + earlier.said.rest);
        }
        const last = sent[index - 1];
        if (last === undefined) continue;
        expect(at).toBeGreaterThanOrEqual(last.at + last.said.floor);
        if (!repeatable) expect(last.said.isAmbiguous).toBe(false);
      }
      expect(sent.length).toBeLessThanOrEqual(4);
      expect(Math.max(0, ...slept)).toBeLessThanOrEqual(LONGEST_TIMER);
      if (!paced) expect(slept.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(maxWait);
      if (!isSuccess(sent.at(-1)?.said.outcome, conduct.success)) {
        expect(doubted).toBe(sent.some(({ said }) => said.isAmbiguous));
      }
    }),
    { numRuns: 1_000 },
  );
});

test('whatever the headers hold, nothing throws', () => {
  const values = fc.oneof(fc.string(), fc.array(fc.string(), { maxLength: 3 }), fc.constant(undefined));
  const names = ['retry-after', 'x-ratelimit-reset', 'x-ratelimit-remaining', 'date', 'content-type'];
  const headers = fc.record(Object.fromEntries(names.map((name) => [name, values])));
  fc.assert(
    fc.property(headers, fc.integer({ min: 100, max: 999 }), fc.string(), (given, status, body) => {
      decideRetry({ reply: { status, headers: given, body } }, state);
      restAfter({ status, headers: given, body }, 1, NOW);
    }),
  );
});

function isSuccess(outcome: Outcome | undefined, status: number): boolean {
  return outcome !== undefined && 'reply' in outcome && outcome.reply.status === status;
}
