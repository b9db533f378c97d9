import { describe, expect, test } from 'vitest';
import type { Outcome } from '../../src/client/attempt.ts';
import { ContractError, HeldBackError, InterruptedError } from '../../src/client/errors.ts';
import type { ReplyHeaders } from '../../src/client/headers.ts';
import { decideRetry, type RetryState } from '../../src/client/retry.ts';
import { late, network, reply, reset, retryAfter, state } from '../helpers/outcomes.ts';

const inFlight = (headers: ReplyHeaders = {}) => reply(409, headers, 'idempotency_in_flight');
const creation = { repeatable: false };
const honoured = { repeatable: false, honoured: true };

type Given = [string, Outcome, Partial<RetryState>];
const decide = (outcome: Outcome, change: Partial<RetryState>) =>
  decideRetry(outcome, { ...state, ...change });

describe('after 429', () => {
  test.each<[...Given, number]>([
    ['waits what Retry-After says', reply(429, retryAfter(7)), {}, 7_000],
    ['a creation too', reply(429, retryAfter(7)), creation, 7_000],
    ['an honoured one too', reply(429, retryAfter(7)), honoured, 7_000],
    ['to the date of Retry-After', reply(429, retryAfter('Fri, 20 Nov 2026 12:00:30 GMT')), {}, 30_000],
    ['to the end of the window', reply(429, reset(30)), {}, 30_000],
    [
      'Remaining asks for nothing more',
      reply(429, { ...retryAfter(7), 'x-ratelimit-remaining': '0' }),
      {},
      7_000,
    ],
    ['never less than the backoff', reply(429, retryAfter(0)), {}, 1_000],
    ['never less than the backoff of the attempt', reply(429, retryAfter(1)), { attempt: 3 }, 4_000],
    ['backs off without a header', reply(429), {}, 1_000],
    ['backs off where the window has ended', reply(429, reset(-5)), {}, 1_000],
    ['backs off where nothing can be understood', reply(429, retryAfter('soon')), {}, 1_000],
    ['backs off twice as long the second time', reply(429), { attempt: 2 }, 2_000],
    ['adds at least a quarter second of jitter', reply(429, retryAfter(1)), { random: 1 }, 1_250],
    ['adds a tenth', reply(429, retryAfter(20)), { random: 1 }, 22_000],
    ['adds half of it', reply(429, retryAfter(20)), { random: 0.5 }, 21_000],
    ['adds three seconds at most', reply(429, retryAfter(60)), { random: 1 }, 63_000],
    ['waits all that is allowed', reply(429, retryAfter(35)), { waited: 40_000 }, 35_000],
    ['waits days where that is allowed', reply(429, retryAfter(172_800)), { maxWait: 1e9 }, 172_800_000],
  ])('%s', (_name, outcome, change, wait) => {
    expect(decide(outcome, change)).toEqual({ retry: true, wait, cost: wait, reason: 'rate limit' });
  });

  test.each<[...Given, number]>([
    ['stops after four attempts', reply(429, retryAfter(1)), { attempt: 4 }, 8_000],
    ['stops where one wait is longer than allowed', reply(429, retryAfter(76)), {}, 76_000],
    ['stops where its jitter is longer than allowed', reply(429, retryAfter(74)), { random: 0.9 }, 76_700],
    ['stops where the waits together are longer', reply(429, retryAfter(40)), { waited: 40_000 }, 40_000],
    ['never waits with a maximum of 0', reply(429, retryAfter(1)), { maxWait: 0 }, 1_000],
    ['never waits without retries', reply(429, retryAfter(0)), { maxWait: -1 }, 1_000],
    ['stops at 400 digits', reply(429, retryAfter('9'.repeat(400))), { maxWait: 1e9 }, 1e14],
  ])('%s, and says how long it would have been', (_name, outcome, change, wait) => {
    expect(decide(outcome, change)).toEqual({ retry: false, wait });
  });

  test.each<[string, number, Partial<RetryState>, boolean]>([
    ['to the edge of a minute costs nothing', 62, { maxWait: 0 }, true],
    ['nor with its jitter', 60, { maxWait: 0, random: 0.99 }, true],
    ['nor after others', 60, { waited: 75_000 }, true],
    ['to the edge of the day is one as any other', 3_600, {}, false],
    ['a little longer too', 66, { maxWait: 65_000 }, false],
  ])('a paced call: a pause %s', (_name, seconds, change, isFree) => {
    expect(decide(reply(429, retryAfter(seconds)), { paced: true, ...change })).toMatchObject(
      isFree ? { retry: true, cost: 0 } : { retry: false },
    );
  });

  test('a paced call that may wait so long pays for a pause longer than a minute', () => {
    const wait = { retry: true, wait: 70_000, cost: 70_000 };
    expect(decide(reply(429, retryAfter(70)), { paced: true })).toMatchObject(wait);
  });
});

describe('after a failure', () => {
  const statuses = [408, 500, 502, 503, 504];
  const everyStatus = (change: Partial<RetryState>) =>
    statuses.map((status): Given => [`${status}`, reply(status, retryAfter(2)), change]);

  test.each<[...Given]>([
    ['a refused connection', network('ECONNREFUSED', false), {}],
    ['a refused connection for a creation: nothing was sent', network('ECONNREFUSED', false), creation],
    ['no connection in time for a creation', late(false), creation],
    ['a cut connection', network('ECONNRESET', true), {}],
    ['a cut connection, honoured', network('ECONNRESET', true), honoured],
    ['a failure without a code', network(undefined, true), {}],
    ['a timeout', late(true), {}],
    ['a timeout, honoured', late(true), honoured],
    ...everyStatus({}),
    ...everyStatus(honoured),
  ])('%s is tried again, twice at most (%#)', (_name, outcome, change) => {
    const reason = 'reply' in outcome ? 'server error' : 'connection';
    expect(decide(outcome, change)).toMatchObject({ retry: true, reason });
    expect(decide(outcome, { ...change, attempt: 2 })).toMatchObject({ retry: true, reason });
    expect(decide(outcome, { ...change, attempt: 3 })).toEqual({ retry: false });
  });

  test.each<[...Given]>([
    ['a creation that may have been seen', network('ECONNRESET', true), creation],
    ['a creation that was not answered in time', late(true), creation],
    ...everyStatus(creation),
    ['a reply too large', { failure: new ContractError(200, 'too large') }, honoured],
    ['an interrupt', { failure: new InterruptedError() }, {}],
    ['what was held back', { failure: new HeldBackError('held back') }, {}],
    ...[
      ...['CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN'],
      ...['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'ERR_TLS_CERT_ALTNAME_INVALID', 'UND_ERR_PRX_TLS'],
      ...['ERR_SSL_WRONG_VERSION_NUMBER', 'EPROTO', 'INVALID_CA', 'CRL_HAS_EXPIRED'],
    ].map((code): Given => [code, network(code, false), {}]),
    ...[
      200, 201, 204, 301, 303, 307, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 431, 501, 505,
    ].flatMap((status) =>
      [{}, creation, honoured].map((change): Given => [`${status}`, reply(status), change]),
    ),
  ])('%s is not tried again (%#)', (_name, outcome, change) => {
    expect(decide(outcome, change)).toEqual({ retry: false });
  });

  test.each<[Partial<RetryState>, number]>([
    [{ random: 0 }, 0],
    [{ random: 0.5 }, 150],
    [{ random: 0.5, attempt: 2 }, 300],
  ])('the backoff has full jitter and doubles: %j waits %i ms', (change, wait) => {
    expect(decide(network('ECONNREFUSED', false), change)).toMatchObject({ wait, cost: wait });
  });

  test.each<[string, ReplyHeaders, number]>([
    ['Retry-After is a floor', retryAfter(9), 9_000],
    ['a date too', retryAfter('Fri, 20 Nov 2026 12:00:09 GMT'), 9_000],
    ['garbage is none', retryAfter('-9'), 150],
    ['the end of a rate-limit window is none', reset(50), 150],
  ])('%s', (_name, headers, wait) => {
    expect(decide(reply(503, headers), { random: 0.5 })).toMatchObject({ wait });
  });

  test('a wait that passes what is allowed is not begun, nor made free by pacing', () => {
    for (const paced of [false, true]) {
      const stopped = { retry: false, wait: 30_000 };
      expect(decide(reply(503, retryAfter(30)), { waited: 50_000, paced })).toEqual(stopped);
    }
  });
});

describe('a creation whose first attempt is still in progress', () => {
  test.each<[string, ReplyHeaders, Partial<RetryState>, number]>([
    ['backs off', {}, {}, 500],
    ['backs off longer each time, to five seconds', {}, { attempt: 9 }, 5_000],
    ['waits what Retry-After says', retryAfter(8), {}, 8_000],
    ['never less than the backoff', retryAfter(0), { attempt: 2 }, 1_000],
    ['adds jitter', {}, { random: 1 }, 750],
  ])('%s', (_name, headers, change, wait) => {
    const reason = 'still in progress';
    expect(decide(inFlight(headers), { ...honoured, ...change })).toEqual({
      retry: true,
      wait,
      cost: wait,
      reason,
    });
  });

  test.each<[...Given]>([
    ['ten attempts are enough', inFlight(), { ...honoured, attempt: 10 }],
    ['not where the service has not shown that it honours the key', inFlight(), creation],
    ['not for another conflict', reply(409, {}, 'conflict'), honoured],
    ['not for a conflict without words', reply(409), honoured],
    ['not for the same code with another status', reply(400, {}, 'idempotency_in_flight'), honoured],
  ])('%s', (_name, outcome, change) => expect(decide(outcome, change)).toEqual({ retry: false }));
});
