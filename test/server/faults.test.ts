import { describe, expect, onTestFinished, test } from 'vitest';
import { operations } from '../../src/contract/api.ts';
import type { FaultOptions } from '../../src/server/faults.ts';
import { parsePrefer } from '../../src/server/mocks.ts';
import { REX } from '../helpers/raw-client.ts';
import { startReal, startWithTools } from '../helpers/real-service.ts';
import { create, type ServiceOptions, start } from '../helpers/service.ts';

const prefer = (value: string, init: RequestInit = {}): RequestInit => ({
  ...init,
  headers: { ...(init.headers as Record<string, string>), Prefer: value },
});

test('--fail-rate causes a 503 that is not counted and stores nothing', async () => {
  const { store, call } = await start({ faults: { failRate: 1, seed: 1 } });
  for (const init of [{}, create(REX), create(REX, { 'Idempotency-Key': '"a"' }), create('nonsense')]) {
    const response = await call('/v1/pets', init);
    expect(response.status).toBe(503);
    expect(response.headers.get('x-ratelimit-remaining')).toBe('60');
    expect(response.headers.get('idempotency-supported')).toBe('true');
    expect(await response.json()).toMatchObject({ code: 'injected_fault' });
  }
  expect(await store.size()).toBe(0);
});

test('--latency delays every response, including errors, but none outside the API', async () => {
  const held: number[] = [];
  const { call } = await start({
    faults: { latency: { min: 40, max: 40 }, seed: 1 },
    sleep: async (milliseconds) => void held.push(milliseconds),
  });
  await call('/v1/pets');
  await call('/v1/pets', { headers: { Authorization: '' } });
  expect(held).toEqual([40, 40]);
  await call('/healthz');
  await call('/v1/pets', { method: 'OPTIONS' });
  expect(held).toEqual([40, 40]);
});

test('many delayed responses at once cause no warning of Node, and end when the service stops', async () => {
  const warnings: Error[] = [];
  const listener = (warning: Error) => warnings.push(warning);
  process.on('warning', listener);
  onTestFinished(() => void process.off('warning', listener));
  const { call, service } = await startWithTools({
    faults: { latency: { min: 60_000, max: 60_000 }, seed: 1 },
  });
  const responses = Promise.all(Array.from({ length: 30 }, () => call('/pets')));
  // A health check that is sent later is answered later.
  for (let i = 0; i < 3; i++) await call('/../healthz');
  await service().stop(1_000);
  expect(new Set((await responses).map(({ status }) => status))).toEqual(new Set([200]));
  expect(warnings).toEqual([]);
});

describe('Prefer: code=NNN', () => {
  test.each(
    Object.entries(operations).flatMap(([name, { method, path, errors, success }]) =>
      [success.status, ...errors].map(
        (status) => [name, method, path.replace('{petId}', '1'), status] as const,
      ),
    ),
  )('%s %s %s: mocks a %i, which is not counted and stores nothing', async (_name, method, path, status) => {
    const { store, call } = await start();
    const body = method === 'POST' ? { body: REX } : {};
    const response = await call(`/v1${path}`, prefer(`code=${status}`, { method, ...body }));
    expect(response.status).toBe(status);
    expect(response.headers.get('preference-applied')).toBe(`code=${status}`);
    if (status === 201) expect(await response.json()).toMatchObject({ id: 1, name: expect.any(String) });
    expect(response.headers.get('x-ratelimit-remaining')).toBe(status === 429 ? '0' : '60');
    expect(await store.size()).toBe(0);
    expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });

  const [ways, waits, others] = [
    ['Code=503', 'code="503"', 'respond-async, code=503', 'code=503; foo=bar', 'wait=10 , code = 503'],
    ['code=503, retry-after=1', 'retry-after=1, code="503"', 'code=503, Retry-After="1"'],
    ['', 'return=minimal', 'barcode=503', 'return="code=503"', 'codes=503', 'retry-after=1'],
  ];
  test.each([
    ...ways.map((value) => ({ value, applied: 'code=503' })),
    ...waits.map((value) => ({ value, applied: 'code=503, retry-after=1' })),
    ...others.map((value) => ({ value, applied: undefined })),
  ])('$value asks for $applied', ({ value, applied }) => {
    expect(parsePrefer(value)?.applied).toBe(applied);
  });

  test('with retry-after ends the window after that time', async () => {
    const { call, clock } = await start();
    const { headers } = await call('/v1/pets', prefer('code=429, retry-after=7'));
    expect(headers.get('retry-after')).toBe('7');
    expect(headers.get('x-ratelimit-reset')).toBe(String(Math.ceil(clock.now() / 1_000 + 7)));
  });

  test.each([
    ...['418', '201', '20', '', '4290', '-1'],
    ...['429, retry-after=0', '429, retry-after=1.5', '429, retry-after=1000001', '500, retry-after=1'],
  ])('code=%s is not possible: 400, uncounted, with the possible codes', async (code) => {
    const { call } = await start();
    const response = await call('/v1/pets', prefer(`code=${code}`));
    expect([response.status, response.headers.get('x-ratelimit-remaining')]).toEqual([400, '60']);
    expect(await response.json()).toMatchObject({ message: expect.stringContaining('429') });
  });

  test.each(['status=503', 'error=503', 'latency=200', 'Delay=2', 'respond-async, status="503"'])(
    'with %s instead is 400, and says what works, because people try it',
    async (value) => {
      const { call } = await start();
      const response = await call('/v1/pets', prefer(value));
      expect(response.status).toBe(400);
      const advice = / is not supported\. Use Prefer: code=503.* for delays, use a fault rule/;
      expect(await response.json()).toMatchObject({ message: expect.stringMatching(advice) });
      expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
      expect((await call('/v1/pets', prefer(`${value}, code=503`))).status).toBe(503);
      // Without the developer tools, all preferences are ignored.
      const other = await startReal({ page: false });
      expect((await other.call('/pets', { headers: { Prefer: value } })).status).toBe(200);
    },
  );

  test('needs a key, a known path and an allowed method', async () => {
    const { call } = await start();
    expect((await call('/v1/pets', prefer('code=200', { headers: { Authorization: '' } }))).status).toBe(401);
    expect((await call('/v1/nothing', prefer('code=200'))).status).toBe(404);
    expect((await call('/v1/pets', prefer('code=200', { method: 'PUT' }))).status).toBe(405);
  });
});

const startWith = (rules: FaultOptions['rules'], options: ServiceOptions = {}) =>
  start({ faults: { seed: 1, rules }, ...options });

describe('a fault rule', () => {
  test('fails a creation twice with 503; the third one adds one animal', async () => {
    const { store, call } = await startWith([
      { match: { method: 'POST', path: '/v1/pets' }, answer: 503, times: 2, retryAfter: 1 },
    ]);
    const init = create(REX, { 'Idempotency-Key': '"a"' });
    for (let i = 0; i < 2; i++) {
      const { status, headers } = await call('/v1/pets', init);
      expect([status, headers.get('retry-after')]).toEqual([503, '1']);
      expect(headers.has('preference-applied')).toBe(false);
      expect((await call('/v1/store/orders')).headers.get('x-ratelimit-remaining')).toBe(String(59 - i));
      expect(await store.size()).toBe(0);
    }
    expect((await call('/v1/pets', init)).status).toBe(201);
    expect(await store.size()).toBe(1);
  });

  test('with 401 hides the quota of the key, as a real 401 does', async () => {
    const { call } = await startWith([{ answer: 401, times: 1 }]);
    const { status, headers } = await call('/v1/pets');
    expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    expect(headers.has('idempotency-supported')).toBe(false);
  });

  test.each<[fault: string, Partial<FaultOptions>]>([
    ['a rule', { rules: [{ answer: 503, times: 1 }] }],
    ['a fail rate', { failRate: 1 }],
  ])(
    '%s does not apply without a valid key, to OPTIONS, to unknown paths and methods, and outside the API',
    async (_fault, settings) => {
      const { call } = await start({ faults: { ...settings, seed: 1 } });
      expect((await call('/v1/pets', { headers: { Authorization: 'Bearer wrong' } })).status).toBe(401);
      expect((await call('/v1/pets', { method: 'OPTIONS' })).status).toBe(204);
      expect((await call('/v1/nothing')).status).toBe(404);
      expect((await call('/v1/pets', { method: 'DELETE' })).status).toBe(405);
      expect((await call('/healthz')).status).toBe(200);
      expect((await call('/v1/pets')).status).toBe(503);
    },
  );

  test('is not used up by a request that prefers another response', async () => {
    const { call } = await startWith([{ answer: 500, times: 1 }]);
    expect((await call('/v1/pets', prefer('code=404'))).status).toBe(404);
    expect((await call('/v1/pets')).status).toBe(500);
  });

  test('with a latency replaces the latency of the service; without an answer, the request is executed', async () => {
    const held: number[] = [];
    const rules = [{ latency: 40 }, { latency: 0 }, { answer: 503 }].map((rule) => ({ ...rule, times: 1 }));
    const { call } = await start({
      faults: { seed: 1, latency: { min: 9, max: 9 }, rules: rules as FaultOptions['rules'] },
      sleep: async (milliseconds) => void held.push(milliseconds),
    });
    const statuses = [];
    for (let i = 0; i < 4; i++) statuses.push((await call('/v1/pets')).status);
    expect(statuses).toEqual([200, 200, 503, 200]);
    expect(held).toEqual([40, 9, 9]);
  });
});

async function startWithFaults(options: Parameters<typeof startReal>[0] = {}) {
  const real = await startWithTools(options);
  /** Changes the faults, or reads them. Returns the status and the rules, or the error. */
  const send = async (method: string, body?: unknown, query = '') => {
    const init = { method, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const response = await real.use(`/faults${query}`, init);
    return { status: response.status, body: await response.json() };
  };
  const statuses = async (count: number) => {
    const all: number[] = [];
    for (let i = 0; i < count; i++) all.push((await real.call('/pets', create(REX))).status);
    return all;
  };
  return { ...real, send, statuses };
}

const TWICE = { match: { method: 'POST', path: '/v1/pets' }, answer: 503, times: 2, retryAfter: 1 };

describe('/faults', () => {
  test('sets rules, shows how often each has applied, and clears them', async () => {
    const { send, statuses } = await startWithFaults();
    const shown = (applied: number) => ({
      status: 200,
      body: { seed: 0, rules: [{ ...TWICE, number: 1, applied }] },
    });
    const none = { status: 200, body: { seed: 0, rules: [] } };
    expect(await send('GET')).toEqual(none);
    expect(await send('PUT', [TWICE])).toEqual(shown(0));
    expect(await statuses(3)).toEqual([503, 503, 201]);
    expect(await send('GET')).toEqual(shown(2));
    expect(await send('DELETE')).toEqual(none);
    expect(await statuses(1)).toEqual([201]);
  });

  test('PUT replaces everything that was set before, the random faults too', async () => {
    const { send, statuses } = await startWithFaults({ faults: { seed: 4, failRate: 1 } });
    expect(await statuses(1)).toEqual([503]);
    expect((await send('PUT', [])).body).toEqual({ seed: 4, rules: [] });
    expect(await statuses(1)).toEqual([201]);
  });

  test('POST adds one rule before the others, leaves them as they are, and drops those that are used up', async () => {
    const { send, statuses } = await startWithFaults();
    await send('PUT', [{ answer: 500, times: 1 }, TWICE]);
    expect(await statuses(2)).toEqual([500, 503]);
    const rule = { match: { method: 'POST', path: '/v1/pets' }, answer: 429, times: 1 };
    const rules = [
      { ...rule, number: 3, applied: 0 },
      { ...TWICE, number: 2, applied: 1 },
    ];
    expect(await send('POST', rule)).toEqual({ status: 200, body: { seed: 0, rules } });
    expect(await statuses(3)).toEqual([429, 503, 201]);
  });

  test('DELETE removes the rule with a number, and leaves the others as they are', async () => {
    const { statuses, send } = await startWithFaults();
    await send('PUT', [{ answer: 500 }, { answer: 409 }, { answer: 503 }]);
    const remove = (rule: string) => send('DELETE', undefined, `?rule=${rule}`);
    expect(await statuses(1)).toEqual([500]);
    expect(await remove('1')).toMatchObject({ status: 200, body: { rules: [{ number: 2 }, { number: 3 }] } });
    expect(await statuses(1)).toEqual([409]);
    expect(await remove('3')).toMatchObject({ status: 200, body: { rules: [{ number: 2, applied: 1 }] } });
    expect(await remove('1')).toMatchObject({ status: 404, body: { code: 'not_found' } });
    for (const invalid of ['0', 'x', '']) expect((await remove(invalid)).status).toBe(400);
    expect(await statuses(1)).toEqual([409]);
  });

  test.each([
    ['POST', [[], { rules: [] }, { answer: 200.5 }, {}, 'x', [{ answer: 503 }]]],
    [
      'PUT',
      [
        'fail twice',
        Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`f${i}`, 0])),
        [{ answer: 500 }, { answer: '500' }],
      ],
    ],
  ])('%s with anything else is 400 with a short error, and changes nothing', async (method, bodies) => {
    const { send } = await startWithFaults();
    const { body: before } = await send('PUT', [TWICE]);
    for (const body of bodies) {
      const response = await send(method, body);
      expect(response.status).toBe(400);
      expect(JSON.stringify(response.body).length).toBeLessThan(400);
      expect((await send('GET')).body).toEqual(before);
    }
  });
});
