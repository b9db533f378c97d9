import { describe, expect, test } from 'vitest';
import type { AttemptOutcome } from '../../src/client/attempt.ts';
import { ContractError, DeferredError, InterruptedError } from '../../src/client/errors.ts';
import type { HttpHeaders } from '../../src/client/response.ts';
import { coolDownAfter, decideRetry, type RetryState } from '../../src/client/retry.ts';
import { NOW, networkError, resetIn, response, retryAfter, state, timeout } from '../helpers/outcomes.ts';

const inProgress = (headers: HttpHeaders = {}) => response(409, headers, 'idempotency_in_flight');
const creation = { idempotent: false };
/** A creation that may have been applied. */
const ambiguousCreation = { idempotent: false, ambiguous: true };
const supported = { idempotent: false, supportsIdempotency: true };

type Case = [string, AttemptOutcome, Partial<RetryState>];
const decide = (outcome: AttemptOutcome, change: Partial<RetryState>) =>
  decideRetry(outcome, { ...state, ...change });

describe('after 429', () => {
  test.each<[...Case, number]>([
    ['waits for Retry-After', response(429, retryAfter(7)), {}, 7_000],
    ['a creation as well', response(429, retryAfter(7)), creation, 7_000],
    ['a creation with a supported key as well', response(429, retryAfter(7)), supported, 7_000],
    ['waits for the end of the window', response(429, resetIn(30)), {}, 30_000],
    ['waits at least the backoff', response(429, retryAfter(0)), {}, 1_000],
    ['waits at least the backoff of the attempt', response(429, retryAfter(1)), { attempt: 3 }, 4_000],
    ['waits for the backoff without a header', response(429), {}, 1_000],
    ['waits for the backoff if the window has ended', response(429, resetIn(-5)), {}, 1_000],
    ['waits for the backoff if Retry-After is invalid', response(429, retryAfter('soon')), {}, 1_000],
    ['doubles the backoff for the second retry', response(429), { attempt: 2 }, 2_000],
    ['adds at least a quarter second of jitter', response(429, retryAfter(1)), { random: 1 }, 1_250],
    ['adds up to 10 % of jitter', response(429, retryAfter(20)), { random: 1 }, 22_000],
    ['scales the jitter with the random number', response(429, retryAfter(20)), { random: 0.5 }, 21_000],
    ['adds at most three seconds of jitter', response(429, retryAfter(60)), { random: 1 }, 63_000],
    ['waits as long as allowed', response(429, retryAfter(35)), { waited: 40_000 }, 35_000],
    ['waits for days if allowed', response(429, retryAfter(172_800)), { maxWait: 1e9 }, 172_800_000],
  ])('%s', (_name, outcome, change, wait) => {
    expect(decide(outcome, change)).toEqual({ retry: true, wait, cost: wait, reason: 'rate limit' });
  });

  test.each<[...Case, number | undefined]>([
    ['gives up after four attempts', response(429, retryAfter(1)), { attempt: 4 }, undefined],
    ['gives up if the wait is longer than allowed', response(429, retryAfter(76)), {}, 76_000],
    [
      'gives up if the wait with its jitter is longer than allowed',
      response(429, retryAfter(74)),
      { random: 0.9 },
      76_700,
    ],
    [
      'gives up if all waits together are longer than allowed',
      response(429, retryAfter(40)),
      { waited: 40_000 },
      80_000,
    ],
    ['gives up with a maximum wait of 0', response(429, retryAfter(1)), { maxWait: 0 }, 1_000],
    ['gives up if support is no longer known', response(429), { ...creation, ambiguous: true }, undefined],
    ['gives up without retries', response(429, retryAfter(0)), { maxWait: -1 }, undefined],
    ['gives up at 400 digits', response(429, retryAfter('9'.repeat(400))), { maxWait: 1e9 }, 1e14],
  ])('%s, and reports the maximum wait that would have helped', (_name, outcome, change, neededMaxWait) => {
    expect(decide(outcome, change)).toEqual({ retry: false, neededMaxWait });
  });

  test.each<[string, number, Partial<RetryState>, cost: number | undefined]>([
    ['for a minute is free', 62, { maxWait: 0 }, 0],
    ['for a minute with jitter is free', 60, { maxWait: 0, random: 0.99 }, 0],
    ['for a minute after others is free', 60, { waited: 75_000 }, 0],
    ['for longer than a minute counts', 70, {}, 70_000],
    ['for an hour is longer than allowed', 3_600, {}, undefined],
    ['is not made without retries', 1, { maxWait: -1 }, undefined],
    ['counts from the fourth attempt on', 1, { attempt: 4 }, 8_000],
    ['from the fourth attempt on can be longer than allowed', 1, { attempt: 4, waited: 68_000 }, undefined],
    ['for 66 seconds is longer than the allowed 65', 66, { maxWait: 65_000 }, undefined],
  ])('a background call: a wait %s', (_name, seconds, change, cost) => {
    const decision = decide(response(429, retryAfter(seconds)), { background: true, ...change });
    expect(decision).toMatchObject(cost === undefined ? { retry: false } : { retry: true, cost });
  });
});

describe('after an error', () => {
  const statuses = [408, 500, 502, 503, 504];
  const everyStatus = (change: Partial<RetryState>) =>
    statuses.map((status): Case => [`${status}`, response(status, retryAfter(2)), change]);

  test.each<[...Case]>([
    ['a refused connection', networkError('ECONNREFUSED', false), {}],
    ['a refused connection of a creation: nothing was sent', networkError('ECONNREFUSED', false), creation],
    ['a reset connection', networkError('ECONNRESET', true), {}],
    ['a reset connection of a creation with a supported key', networkError('ECONNRESET', true), supported],
    ['a network error without a code', networkError(undefined, true), {}],
    ['a failed host name lookup', networkError('EAI_AGAIN', false), {}],
    [
      'a reset connection, also if refused ones fail fast',
      networkError('ECONNRESET', true),
      { failsFastIfRefused: true },
    ],
    ['503 of a creation on a full disk', response(503, {}, 'storage_full'), creation],
    ['503 of a creation while the server starts', response(503, {}, 'starting'), creation],
    ...everyStatus({}),
    ...everyStatus(supported),
  ])('%s is retried, at most five times (%#)', (_name, outcome, change) => {
    expectAttempts(6, outcome, change);
  });

  test.each<[...Case]>([
    ['an unknown host', networkError('ENOTFOUND', false), {}],
    [
      'a refused connection that fails fast',
      networkError('ECONNREFUSED', false),
      { failsFastIfRefused: true },
    ],
    ['a timeout', timeout(true), {}],
    ['a timeout of a creation with a supported key', timeout(true), supported],
    ['a timeout of a creation before it was sent', timeout(false), creation],
  ])('%s is retried, at most twice', (_name, outcome, change) => {
    expectAttempts(3, outcome, change);
  });

  function expectAttempts(count: number, outcome: AttemptOutcome, change: Partial<RetryState>) {
    const reason = 'response' in outcome ? 'server error' : 'connection';
    for (let attempt = 1; attempt < count; attempt++)
      expect(decide(outcome, { ...change, attempt })).toMatchObject({ retry: true, reason });
    expect(decide(outcome, { ...change, attempt: count })).toEqual({ retry: false });
  }

  test.each<[...Case]>([
    ['a reset connection of a creation', networkError('ECONNRESET', true), ambiguousCreation],
    ['a timeout of a creation', timeout(true), ambiguousCreation],
    ...everyStatus(ambiguousCreation),
    ['a response that is too large', { error: new ContractError(200, 'too large') }, supported],
    ['an interrupt', { error: new InterruptedError() }, {}],
    ['a deferred attempt', { error: new DeferredError('deferred') }, {}],
    ...[
      ...['CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN'],
      ...['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'ERR_TLS_CERT_ALTNAME_INVALID', 'UND_ERR_PRX_TLS'],
      ...['ERR_SSL_WRONG_VERSION_NUMBER', 'EPROTO', 'INVALID_CA', 'CRL_HAS_EXPIRED'],
    ].map((code): Case => [code, networkError(code, false), {}]),
    ...[
      200, 201, 204, 301, 303, 307, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 431, 501, 505,
    ].flatMap((status) =>
      [{}, creation, supported].map((change): Case => [`${status}`, response(status), change]),
    ),
  ])('%s is not retried (%#)', (_name, outcome, change) => {
    expect(decide(outcome, change)).toEqual({ retry: false });
  });

  test.each<[string, Partial<RetryState>, number[]]>([
    ['ECONNREFUSED', { random: 1 }, [500, 1_000, 2_000, 4_000, 7_500]],
    ['ECONNREFUSED', { random: 0 }, [375, 750, 1_500, 3_000, 5_625]],
    ['ENOTFOUND', { random: 1 }, [300, 600]],
    ['ENOTFOUND', { random: 0.5 }, [150, 300]],
    ['ENOTFOUND', { random: 0 }, [0, 0]],
  ])('the waits after %s with %j are %j ms, and add up to at most 15 s', (code, change, waits) => {
    const outcome = networkError(code, false);
    const decisions = waits.map((_, i) => decide(outcome, { ...change, attempt: i + 1 }));
    expect(decisions).toMatchObject(waits.map((wait) => ({ retry: true, wait, cost: wait })));
    expect(waits.reduce((sum, wait) => sum + wait, 0)).toBeLessThanOrEqual(15_000);
  });

  test.each<[string, HttpHeaders, number]>([
    ['waits at least Retry-After', retryAfter(9), 9_000],
    ['an invalid Retry-After is ignored', retryAfter('-9'), 437.5],
    ['the end of a rate-limit window is ignored', resetIn(50), 437.5],
  ])('%s', (_name, headers, wait) => {
    expect(decide(response(503, headers), { random: 0.5 })).toMatchObject({ wait });
  });

  test('a wait longer than allowed is never free, not even for a background call', () => {
    for (const background of [false, true]) {
      const stopped = { retry: false, neededMaxWait: 80_000 };
      expect(decide(response(503, retryAfter(30)), { waited: 50_000, background })).toEqual(stopped);
    }
  });
});

describe('a creation that is still in progress', () => {
  test.each<[string, HttpHeaders, Partial<RetryState>, number]>([
    ['waits for the backoff', {}, {}, 500],
    ['doubles the backoff, up to five seconds', {}, { attempt: 9 }, 5_000],
    ['waits for Retry-After', retryAfter(8), {}, 8_000],
    ['waits at least the backoff', retryAfter(0), { attempt: 2 }, 1_000],
    ['adds jitter', {}, { random: 1 }, 750],
  ])('%s', (_name, headers, change, wait) => {
    const reason = 'still in progress';
    expect(decide(inProgress(headers), { ...supported, ...change })).toEqual({
      retry: true,
      wait,
      cost: wait,
      reason,
    });
  });

  test.each<[...Case]>([
    ['gives up after ten attempts', inProgress(), { ...supported, attempt: 10 }],
    ['gives up if the key is not known to be supported', inProgress(), creation],
    ['gives up after another conflict', response(409, {}, 'conflict'), supported],
    ['gives up after a conflict without an Error body', response(409), supported],
    [
      'gives up after the same code with another status',
      response(400, {}, 'idempotency_in_flight'),
      supported,
    ],
  ])('%s', (_name, outcome, change) => expect(decide(outcome, change)).toEqual({ retry: false }));
});

describe('coolDownAfter', () => {
  const exhausted = (remaining: string) => ({ 'x-ratelimit-remaining': remaining, ...resetIn(45) });
  test.each<[string, number, HttpHeaders, number, number | undefined]>([
    ['429: Retry-After', 429, retryAfter(7), 1, 7_000],
    ['429: the end of the window', 429, resetIn(45), 1, 45_000],
    ['429 without headers: the backoff', 429, {}, 3, 4_000],
    ['429: the backoff, if longer than Retry-After', 429, retryAfter(1), 3, 4_000],
    ['429: at most 60 s of backoff', 429, {}, 30, 60_000],
    ['429: two days', 429, retryAfter(172_800), 1, 172_800_000],
    ['Remaining 0: the end of the window', 200, exhausted('0'), 1, 45_000],
    ['Remaining 0 in an error', 404, exhausted('0'), 1, 45_000],
    ['Remaining 0 without Reset: none', 200, { 'x-ratelimit-remaining': '0' }, 1, undefined],
    ['Remaining 1: none', 200, exhausted('1'), 1, undefined],
    ['Retry-After in another error: none', 503, retryAfter(9), 1, undefined],
  ])('%s', (_name, status, headers, attempt, coolDown) => {
    expect(coolDownAfter({ status, headers, body: '' }, attempt, NOW)).toBe(coolDown);
  });
});
