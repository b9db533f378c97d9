import { describe, expect, test } from 'vitest';
import type { FaultSettings } from '../../src/server/faults/fault-settings.ts';
import { drawFault } from '../../src/server/faults/faults.ts';
import { REX } from '../helpers/raw-requests.ts';
import { create, type ServiceOptions, start } from '../helpers/service.ts';

const startWith = (rules: FaultSettings['rules'], options: ServiceOptions = {}) =>
  start({ faults: { seed: 1, rules }, ...options });

describe('a fault rule', () => {
  test('fails a creation twice with 503; the third one adds one animal', async () => {
    const { store, call } = await startWith([
      { match: { method: 'POST', path: '/v1/pets' }, answer: 503, times: 2, retryAfter: 1 },
    ]);
    const init = create(REX, { 'Idempotency-Key': '"a"' });
    for (let i = 0; i < 2; i++) {
      const response = await call('/v1/pets', init);
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('1');
      expect(response.headers.get('x-ratelimit-remaining')).toBe(String(60 - i));
      expect(response.headers.has('preference-applied')).toBe(false);
      expect(await response.json()).toEqual({
        code: 'injected_fault',
        message: 'Mocked response (your rule for POST /v1/pets)',
        status: 503,
      });
      expect((await call('/v1/store/orders')).status).toBe(200);
      expect(await store.size()).toBe(0);
    }
    expect((await call('/v1/pets', init)).status).toBe(201);
    expect(await store.size()).toBe(1);
  });

  test('that applies twice answers exactly two of 32 parallel requests', async () => {
    const { call } = await startWith([{ answer: 503, times: 2 }]);
    const responses = await Promise.all(Array.from({ length: 32 }, () => call('/v1/pets')));
    const statuses = responses.map(({ status }) => status);
    expect(statuses.filter((status) => status === 503)).toHaveLength(2);
    expect(statuses.filter((status) => status === 200)).toHaveLength(30);
  });

  test('with 429 and retryAfter ends the window after that time', async () => {
    const { call, clock } = await startWith([{ answer: 429, retryAfter: 7, times: 1 }]);
    const { status, headers } = await call('/v1/pets');
    expect([status, headers.get('retry-after'), headers.get('x-ratelimit-remaining')]).toEqual([
      429,
      '7',
      '0',
    ]);
    expect(Number(headers.get('x-ratelimit-reset'))).toBe(Math.ceil(clock.now() / 1_000 + 7));
    expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });

  test('with 401 hides the quota of the key, as a real 401 does', async () => {
    const { call } = await startWith([{ answer: 401, times: 1 }]);
    const { status, headers } = await call('/v1/pets');
    expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    expect(headers.has('idempotency-supported')).toBe(false);
  });

  test('does not apply without a valid key, to OPTIONS, to unknown paths and to routes outside the API', async () => {
    const { call } = await startWith([{ answer: 500, times: 1 }]);
    expect((await call('/v1/pets', { headers: { Authorization: 'Bearer wrong' } })).status).toBe(401);
    expect((await call('/v1/pets', { method: 'OPTIONS' })).status).toBe(204);
    expect((await call('/v1/nothing')).status).toBe(404);
    expect((await call('/v1/pets', { method: 'DELETE' })).status).toBe(405);
    expect((await call('/healthz')).status).toBe(200);
    expect((await call('/v1/pets')).status).toBe(500);
  });

  test('applies to a key over its limit, and does not count towards a ban', async () => {
    const { call } = await startWith([{ match: { path: '/v1/store/orders' }, answer: 500 }], {
      quota: { perMinute: 1, perDay: 9 },
    });
    expect((await call('/v1/pets')).status).toBe(200);
    expect((await call('/v1/pets')).status).toBe(429);
    expect((await call('/v1/store/orders')).status).toBe(500);
  });

  test('applies even if the query is malformed', async () => {
    const { call } = await startWith([{ answer: 500, times: 1 }]);
    expect((await call('/v1/pets?a=1&a=2')).status).toBe(500);
    expect((await call('/v1/pets?a=1&a=2')).status).toBe(400);
  });

  test('is not used up by a request that prefers another response', async () => {
    const { call } = await startWith([{ answer: 500, times: 1 }]);
    expect((await call('/v1/pets', { headers: { Prefer: 'code=404' } })).status).toBe(404);
    expect((await call('/v1/pets')).status).toBe(500);
  });

  test('with a latency replaces the latency of the service; without an answer, the request is executed', async () => {
    const held: number[] = [];
    const { call } = await startWith(undefined, {
      faults: {
        seed: 1,
        latency: { min: 9, max: 9 },
        rules: [
          { latency: { min: 40, max: 40 }, times: 1 },
          { latency: { min: 0, max: 0 }, times: 1 },
          { answer: 503, times: 1 },
        ],
      },
      sleep: async (milliseconds) => void held.push(milliseconds),
    });
    const statuses = [];
    for (let i = 0; i < 4; i++) statuses.push((await call('/v1/pets')).status);
    expect(statuses).toEqual([200, 200, 503, 200]);
    expect(held).toEqual([40, 9, 9]);
  });

  test('leaves the order of random failures unchanged', async () => {
    const random = { seed: 5, failRate: 0.5 };
    const { call } = await startWith(undefined, {
      faults: { ...random, rules: [{ match: { path: '/v1/store/orders' }, answer: 500 }] },
    });
    const paths = Array.from({ length: 40 }, (_, n) => (n % 3 === 0 ? '/v1/store/orders' : '/v1/pets'));
    for (const [n, path] of paths.entries()) {
      const expected = path === '/v1/pets' ? (drawFault(random, n).fails ? 503 : 200) : 500;
      expect((await call(path)).status).toBe(expected);
      await call('/healthz');
    }
  });
});

describe('Prefer: retry-after=N', () => {
  const prefer = (value: string): RequestInit => ({ headers: { Prefer: value } });

  test.each([
    ['code=429, retry-after=1', '1', 'code=429, retry-after=1'],
    ['retry-after=2, code=429', '2', 'code=429, retry-after=2'],
    ['code="503", Retry-After="30"', '30', 'code=503, retry-after=30'],
    ['code=503', null, 'code=503'],
  ])('chooses the wait: %s', async (value, retryAfter, applied) => {
    const { call } = await start();
    const { headers } = await call('/v1/pets', prefer(value));
    expect(headers.get('retry-after')).toBe(retryAfter);
    expect(headers.get('preference-applied')).toBe(applied);
  });

  test('a mocked 429 resets the rate limit after the wait', async () => {
    const { call, clock } = await start();
    const { headers } = await call('/v1/pets', prefer('code=429, retry-after=3'));
    expect(Number(headers.get('x-ratelimit-reset'))).toBe(Math.ceil(clock.now() / 1_000 + 3));
  });

  test.each([
    'code=429, retry-after=0',
    'code=429, retry-after=x',
    'code=429, retry-after=1.5',
    'code=429, retry-after=1000001',
    'code=500, retry-after=1',
    'code=200, retry-after=1',
  ])('that is not possible is 400: %s', async (value) => {
    const { call } = await start();
    const { status, headers } = await call('/v1/pets', prefer(value));
    expect([status, headers.has('preference-applied')]).toEqual([400, false]);
    expect(headers.get('x-ratelimit-remaining')).toBe('60');
  });

  test('without a code is ignored', async () => {
    const { call } = await start();
    const { status, headers } = await call('/v1/pets', prefer('retry-after=1'));
    expect([status, headers.has('retry-after')]).toEqual([200, false]);
  });
});
