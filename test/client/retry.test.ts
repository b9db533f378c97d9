import { expect, test } from 'vitest';
import type { AttemptOutcome } from '../../src/client/attempt.ts';
import { ContractError, NetworkError } from '../../src/client/errors.ts';
import { decideRetry, type RetryState } from '../../src/client/retry.ts';
import { InterruptedError } from '../../src/system/clock.ts';
import { list, testClient } from '../helpers/client.ts';
import { networkError, resetIn, response, retryAfter, state, timeout } from '../helpers/outcomes.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

const inProgress = response(409, {}, 'idempotency_in_flight');
const creation = { idempotent: false };
/** A creation that may have been applied. */
const ambiguous = { idempotent: false, ambiguous: true };
const supported = { ...ambiguous, supportsIdempotency: true };

type Case = [string, AttemptOutcome, Partial<RetryState>];
const decide = (outcome: AttemptOutcome, change: Partial<RetryState>) =>
  decideRetry(outcome, { ...state, ...change });
const serverErrors = (change: Partial<RetryState>) =>
  [408, 500, 502, 503, 504].map((status): Case => [`${status}`, response(status, retryAfter(2)), change]);
const refused = networkError('ECONNREFUSED', false);
const reset = networkError('ECONNRESET', true);
const local = { isLocal: true };

test.each<[count: number, reason: string, ...Case]>([
  ...[{}, creation, supported].map((change): [number, string, ...Case] => [
    6,
    'rate limit',
    '429',
    response(429, retryAfter(1)),
    change,
  ]),
  ...[...serverErrors({}), ...serverErrors(supported)].map((each): [number, string, ...Case] => [
    6,
    'server error',
    ...each,
  ]),
  [6, 'server error', '503 of a creation while the server starts', response(503, {}, 'starting'), creation],
  [6, 'connection', 'a refused connection of a creation: nothing was sent', refused, creation],
  [6, 'connection', 'a reset connection to this machine', reset, local],
  [6, 'connection', 'a reset connection of a creation with a supported key', reset, supported],
  [6, 'connection', 'a network error without a code', networkError(undefined, true), {}],
  [3, 'connection', 'an unknown host', networkError('ENOTFOUND', false), {}],
  [3, 'connection', 'a refused connection to this machine', refused, local],
  [3, 'connection', 'a timeout of a creation with a supported key', timeout(true), supported],
  [3, 'connection', 'a timeout of a creation before it was sent', timeout(false), creation],
  [3, 'server error', '503 of a creation on a full disk', response(503, {}, 'storage_full'), creation],
  [6, 'still in progress', 'a creation in progress', inProgress, supported],
])('at most %i attempts (%s): %s (%#)', (count, reason, _name, outcome, change) => {
  for (let attempt = 1; attempt < count; attempt++)
    expect(decide(outcome, { ...change, attempt })).toMatchObject({ reason });
  expect(decide(outcome, { ...change, attempt: count })).toBeUndefined();
});

const permanentStatuses = [
  ...[200, 201, 204, 301, 303, 307, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 431, 501, 505],
];
test.each<Case>([
  // retry-chains.test.ts has what may have been applied.
  ['without retries', response(429, retryAfter(0)), { maxWait: undefined }],
  ['429 with a wait that is longer than allowed', response(429, retryAfter(76)), {}],
  ['503 with a wait that is longer than allowed', response(503, retryAfter(76)), {}],
  ['a reset connection with a maximum wait of 0', reset, { maxWait: 0 }],
  ['headers that are too large', { error: new ContractError(200, 'too large') }, supported],
  ['an interrupt', { error: new InterruptedError() }, {}],
  ['a creation in progress with a key that is not supported', inProgress, creation],
  ['another conflict', response(409, {}, 'conflict'), supported],
  ['a certificate error', { error: new NetworkError('bad', { sent: false, isPermanent: true }) }, {}],
  ...permanentStatuses.flatMap((status) =>
    [{}, creation, supported].map((change): Case => [`${status}`, response(status), change]),
  ),
])('is not retried: %s (%#)', (_name, outcome, change) => {
  expect(decide(outcome, change)).toBeUndefined();
});

test.each<[...Case, waits: number[]]>([
  ['429: Retry-After', response(429, retryAfter(7)), {}, [7_000]],
  ['429: the end of the window', response(429, resetIn(30)), {}, [30_000]],
  ['429 without a header: a minute', response(429), {}, [60_000]],
  ['ECONNREFUSED', refused, {}, [500, 1_000, 2_000, 4_000, 5_500]],
  ['503: Retry-After', response(503, retryAfter(9)), {}, [9_000, 9_000]],
  ['503 with an invalid Retry-After', response(503, retryAfter('-9')), {}, [500, 1_000]],
  ['503: the end of a rate-limit window is ignored', response(503, resetIn(50)), {}, [500, 1_000]],
  ['a creation in progress', inProgress, supported, [500, 1_000, 2_000, 4_000, 5_500]],
  [
    'a creation in progress: Retry-After, but at least the backoff',
    response(409, retryAfter(1), 'idempotency_in_flight'),
    supported,
    [1_000, 1_000, 2_000],
  ],
])('the waits after %s', (_name, outcome, change, waits) => {
  const decisions = waits.map((_, i) => decide(outcome, { ...change, attempt: i + 1 }));
  expect(decisions).toMatchObject(waits.map((wait) => ({ wait })));
  if ('error' in outcome) expect(waits.reduce((sum, wait) => sum + wait, 0)).toBeLessThanOrEqual(15_000);
});

test.each([
  ['at least a quarter second', 1, 1, 1_250],
  ['in proportion to the random number', 20, 0.5, 21_000],
  ['at most three seconds', 60, 1, 63_000],
])('a random addition makes a wait longer: %s', async (_name, seconds, random, wait) => {
  const server = await scriptedServer((_, response, count) =>
    count === 1
      ? replyError(response, 429, 'a_code', { 'Retry-After': `${seconds}` })
      : reply(response, 200, []),
  );
  const { client, slept } = testClient(server.url, { random: () => random });
  await list(client);
  expect(slept).toEqual([wait]);
});
