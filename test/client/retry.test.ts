import { describe, expect, test } from 'vitest';
import type { AttemptOutcome } from '../../src/client/attempt.ts';
import { ContractError, DeferredError, InterruptedError } from '../../src/client/errors.ts';
import type { HttpHeaders } from '../../src/client/response.ts';
import { coolDownAfter, decideRetry, methodPauseAfter, type RetryState } from '../../src/client/retry.ts';
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
    ['waits at least a second', response(429, retryAfter(0)), {}, 1_000],
    ['waits a minute without a header', response(429), {}, 60_000],
    ['waits at least a second if the window has ended', response(429, resetIn(-5)), {}, 1_000],
    ['waits a minute if Retry-After is invalid', response(429, retryAfter('soon')), {}, 60_000],
    ['waits as often as for another failure', response(429, retryAfter(1)), { attempt: 5 }, 1_000],
    ['adds at least a quarter second of jitter', response(429, retryAfter(1)), { random: 1 }, 1_250],
    ['adds up to 10 % of jitter', response(429, retryAfter(20)), { random: 1 }, 22_000],
    ['scales the jitter with the random number', response(429, retryAfter(20)), { random: 0.5 }, 21_000],
    ['adds at most three seconds of jitter', response(429, retryAfter(60)), { random: 1 }, 63_000],
    ['waits as long as allowed, and the jitter', response(429, retryAfter(75)), { random: 1 }, 78_000],
    ['waits for days if allowed', response(429, retryAfter(172_800)), { maxWait: 1e9 }, 172_800_000],
  ])('%s', (_name, outcome, change, wait) => {
    expect(decide(outcome, change)).toEqual({ retry: true, wait, reason: 'rate limit' });
  });

  test.each<[...Case, number | undefined]>([
    ['gives up after six attempts', response(429, retryAfter(1)), { attempt: 6 }, undefined],
    ['gives up if the wait is longer than allowed', response(429, retryAfter(76)), {}, 76_000],
    ['gives up with a maximum wait of 0', response(429, retryAfter(1)), { maxWait: 0 }, 1_000],
    ['gives up if support is no longer known', response(429), { ...creation, ambiguous: true }, undefined],
    ['gives up without retries', response(429, retryAfter(0)), { maxWait: undefined }, undefined],
    ['gives up at 400 digits', response(429, retryAfter('9'.repeat(400))), { maxWait: 1e9 }, 1e14],
  ])('%s, and reports the maximum wait that would have helped', (_name, outcome, change, neededMaxWait) => {
    expect(decide(outcome, change)).toEqual({ retry: false, ...(neededMaxWait && { neededMaxWait }) });
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
    ['503 of a creation on a full disk', response(503, {}, 'storage_full'), creation],
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
    expect(decisions).toMatchObject(waits.map((wait) => ({ retry: true, wait })));
    expect(waits.reduce((sum, wait) => sum + wait, 0)).toBeLessThanOrEqual(15_000);
  });

  test.each<[string, HttpHeaders, number]>([
    ['waits at least Retry-After', retryAfter(9), 9_000],
    ['an invalid Retry-After is ignored', retryAfter('-9'), 437.5],
    ['the end of a rate-limit window is ignored', resetIn(50), 437.5],
  ])('%s', (_name, headers, wait) => {
    expect(decide(response(503, headers), { random: 0.5 })).toMatchObject({ wait });
  });

  test('a wait longer than allowed is not made', () => {
    const stopped = { retry: false, neededMaxWait: 76_000 };
    expect(decide(response(503, retryAfter(76)), {})).toEqual(stopped);
    expect(decide(networkError('ECONNRESET', true), { maxWait: 0 })).toMatchObject({ retry: false });
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

describe('the pause of all requests with the key, and of requests with the same method', () => {
  const exhausted = (remaining: string) => ({ 'x-ratelimit-remaining': remaining, ...resetIn(45) });
  test.each<[string, AttemptOutcome, number | undefined, number | undefined]>([
    ['429: Retry-After', response(429, retryAfter(7)), 7_000, undefined],
    ['429: the end of the window', response(429, resetIn(45)), 45_000, undefined],
    ['429 without headers: a minute', response(429), 60_000, undefined],
    ['429: at least a second', response(429, retryAfter(0)), 1_000, undefined],
    ['429: two days', response(429, retryAfter(172_800)), 172_800_000, undefined],
    ['Remaining 0: the end of the window', response(200, exhausted('0')), 45_000, undefined],
    ['Remaining 0 in an error', response(404, exhausted('0')), 45_000, undefined],
    [
      'Remaining 0 without Reset: none',
      response(200, { 'x-ratelimit-remaining': '0' }),
      undefined,
      undefined,
    ],
    ['Remaining 1: none', response(200, exhausted('1')), undefined, undefined],
    ['503: Retry-After', response(503, retryAfter(9)), undefined, 9_000],
    ['503: at most a minute', response(503, retryAfter(61), 'unavailable'), undefined, 60_000],
    ['503 without Retry-After: none', response(503, resetIn(45)), undefined, undefined],
    ['503 of a full disk: none', response(503, retryAfter(9), 'storage_full'), undefined, undefined],
    ['503 of failed storage: none', response(503, retryAfter(9), 'storage_failed'), undefined, undefined],
    ['Retry-After in another error: none', response(502, retryAfter(9)), undefined, undefined],
  ])('%s', (_name, outcome, ofKey, ofMethod) => {
    if (!('response' in outcome)) throw new Error('expected a response');
    const { response: received } = outcome;
    expect([coolDownAfter(received, NOW), methodPauseAfter(received, NOW)]).toEqual([ofKey, ofMethod]);
  });
});
