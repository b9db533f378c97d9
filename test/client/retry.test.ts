import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Outcome } from '../../src/client/attempt.ts';
import { NetworkError, TimeoutError } from '../../src/client/errors.ts';
import { decideRetry, type RetryState } from '../../src/client/retry.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const state: RetryState = {
  repeatable: true,
  honoured: false,
  attempt: 1,
  waited: 0,
  maxWait: 75_000,
  paced: false,
  now: NOW,
  random: 0,
};

const reply = (status: number, headers: Record<string, string> = {}): Outcome => ({
  reply: { status, headers, body: '' },
});
const refused: Outcome = { failure: new NetworkError('refused', { code: 'ECONNREFUSED', sent: false }) };
const cut: Outcome = { failure: new NetworkError('cut', { code: 'ECONNRESET', sent: true }) };
const late: Outcome = { failure: new TimeoutError(30_000, { sent: true }) };
const untrusted: Outcome = {
  failure: new NetworkError('certificate', { code: 'CERT_HAS_EXPIRED', sent: false }),
};
const creation = { repeatable: false };

describe('after 429', () => {
  test.each<[string, Outcome, Partial<RetryState>, number]>([
    ['waits what Retry-After says', reply(429, { 'retry-after': '7' }), {}, 7_000],
    ['a creation too', reply(429, { 'retry-after': '7' }), creation, 7_000],
    ['never less than the backoff of the attempt', reply(429, { 'retry-after': '1' }), { attempt: 3 }, 4_000],
    ['backs off without a header', reply(429), {}, 1_000],
    ['backs off twice as long the second time', reply(429), { attempt: 2 }, 2_000],
    ['adds at least a quarter second of jitter', reply(429, { 'retry-after': '1' }), { random: 1 }, 1_250],
    ['adds a tenth', reply(429, { 'retry-after': '20' }), { random: 1 }, 22_000],
    ['adds three seconds at most', reply(429, { 'retry-after': '60' }), { random: 1 }, 63_000],
  ])('%s', (_name, outcome, change, wait) => {
    expect(decideRetry(outcome, { ...state, ...change })).toEqual({
      retry: true,
      wait,
      cost: wait,
      reason: 'rate limit',
    });
  });

  test.each<[string, Outcome, Partial<RetryState>, number]>([
    ['stops after four attempts', reply(429, { 'retry-after': '1' }), { attempt: 4 }, 8_000],
    ['stops where one wait is longer than allowed', reply(429, { 'retry-after': '76' }), {}, 76_000],
    [
      'stops where the waits together are longer',
      reply(429, { 'retry-after': '40' }),
      { waited: 40_000 },
      40_000,
    ],
    ['never waits with a maximum of 0', reply(429, { 'retry-after': '1' }), { maxWait: 0 }, 1_000],
  ])('%s, and says how long it would have been', (_name, outcome, change, wait) => {
    expect(decideRetry(outcome, { ...state, ...change })).toEqual({ retry: false, wait });
  });
});

describe('after a failure', () => {
  test.each<[string, Outcome, Partial<RetryState>]>([
    ['a refused connection', refused, {}],
    ['a refused connection for a creation: nothing was sent', refused, creation],
    ['a cut connection', cut, {}],
    ['a timeout', late, {}],
    ...[408, 500, 502, 503, 504].map((status): [string, Outcome, Partial<RetryState>] => [
      `${status}`,
      reply(status),
      {},
    ]),
  ])('%s is tried again', (_name, outcome, change) => {
    expect(decideRetry(outcome, { ...state, ...change })).toMatchObject({ retry: true });
  });

  test.each<[string, Outcome, Partial<RetryState>]>([
    ['a creation that may have been seen', cut, creation],
    ['a creation that was not answered in time', late, creation],
    ['a creation that met a server error', reply(500), creation],
    ['a third attempt', refused, { attempt: 3 }],
    ['a refused certificate', untrusted, {}],
    ...[200, 301, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 431, 501].map(
      (status): [string, Outcome, Partial<RetryState>] => [`${status}`, reply(status), {}],
    ),
  ])('%s is not', (_name, outcome, change) => {
    expect(decideRetry(outcome, { ...state, ...change })).toEqual({ retry: false });
  });

  test('the backoff has full jitter and doubles', () => {
    const wait = (change: Partial<RetryState>) => {
      const decision = decideRetry(refused, { ...state, ...change });
      return decision.retry ? decision.wait : undefined;
    };
    expect(wait({ random: 0 })).toBe(0);
    expect(wait({ random: 0.5 })).toBe(150);
    expect(wait({ random: 0.5, attempt: 2 })).toBe(300);
  });

  test('Retry-After is a floor, but a rate-limit window is none', () => {
    expect(decideRetry(reply(503, { 'retry-after': '9' }), state)).toMatchObject({ wait: 9_000 });
    expect(decideRetry(reply(503, { 'x-ratelimit-reset': String(NOW / 1_000 + 50) }), state)).toMatchObject({
      wait: 0,
    });
  });
});

test('whatever the headers hold: never earlier than asked, never longer than allowed in all', () => {
  const states = fc.record({
    repeatable: fc.boolean(),
    honoured: fc.boolean(),
    paced: fc.constant(false),
    attempt: fc.integer({ min: 1, max: 6 }),
    waited: fc.integer({ min: 0, max: 100_000 }),
    maxWait: fc.integer({ min: -1, max: 100_000 }),
    now: fc.constant(NOW),
    random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  });
  const asked = fc.integer({ min: 0, max: 200 });
  fc.assert(
    fc.property(states, asked, fc.constantFrom(429, 503), (given, seconds, status) => {
      const decision = decideRetry(reply(status, { 'retry-after': String(seconds) }), given);
      if (!decision.retry) return;
      expect(decision.wait).toBeGreaterThanOrEqual(seconds * 1_000);
      expect(given.waited + decision.wait).toBeLessThanOrEqual(given.maxWait);
    }),
  );
});
