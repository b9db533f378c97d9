import { describe, expect, onTestFinished, test } from 'vitest';
import { operations } from '../../src/contract/operations.ts';
import type { FaultOptions } from '../../src/server/faults.ts';
import { sampleData } from '../../src/server/sample-data.ts';
import { gate } from '../helpers/gate.ts';
import { REX } from '../helpers/raw-requests.ts';
import { startReal } from '../helpers/real-service.ts';
import { create, type ServiceOptions, start } from '../helpers/service.ts';
import { startWithTools } from '../helpers/tools.ts';

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
    expect(await response.json()).toEqual({
      code: 'injected_fault',
      message: expect.any(String),
      status: 503,
    });
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

test('many delayed responses at once cause no warning of Node', async () => {
  const warnings: Error[] = [];
  const listener = (warning: Error) => warnings.push(warning);
  process.on('warning', listener);
  onTestFinished(() => void process.off('warning', listener));
  const held = gate();
  const service = await startReal({
    faults: { latency: { min: 60_000, max: 60_000 }, seed: 1 },
    sleep: (_milliseconds, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        held.open();
      }),
  });
  const responses = Promise.all(Array.from({ length: 30 }, () => service.call('/pets')));
  await held.opened;
  await expect.poll(async () => (await service.call('/../healthz')).status).toBe(200);
  await service.restart();
  expect((await responses).map(({ status }) => status)).toEqual(Array.from({ length: 30 }, () => 200));
  await new Promise(setImmediate);
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
    expect(response.headers.get('x-ratelimit-remaining')).toBe(status === 429 ? '0' : '60');
    expect(await store.size()).toBe(0);
    expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });

  test('is the only preference besides retry-after; what is not possible is 400, and none is counted', async () => {
    const { call, clock } = await start();
    type Row = [value: string, status: number, retryAfter?: string | undefined, applied?: string];
    const asks = ['code=503', 'Code=503', 'code="503"', 'respond-async, code=503', 'code=503; foo=bar'];
    const ignored = ['', 'return=minimal', 'respond-async', 'barcode=503', 'return="code=503"', 'codes=503'];
    const codes = ['418', '201', '20', '', '4290', 'toString', '-1'].map((code) => `code=${code}`);
    const waits = ['0', 'x', '1.5', '1000001'].map((wait) => `code=429, retry-after=${wait}`);
    for (const [value, expected, retryAfter, applied] of [
      ...[...asks, 'wait=10 , code = 503'].map((value): Row => [value, 503, undefined, 'code=503']),
      ['code=429, retry-after=1', 429, '1', 'code=429, retry-after=1'],
      ['retry-after=2, code=429', 429, '2', 'code=429, retry-after=2'],
      ['code="503", Retry-After="30"', 503, '30', 'code=503, retry-after=30'],
      ...[...codes, ...waits, 'code=500, retry-after=1', 'code=200, retry-after=1'].map(
        (value): Row => [value, 400],
      ),
      ...[...ignored, 'retry-after=1'].map((value): Row => [value, 200]),
    ] as Row[]) {
      const response = await call('/v1/pets', prefer(value));
      const header = (name: string) => response.headers.get(name) ?? undefined;
      const observed = [response.status, header('retry-after'), header('preference-applied')];
      expect(observed, value).toEqual([expected, retryAfter, applied]);
      const reset = Math.ceil(clock.now() / 1_000 + Number(retryAfter));
      if (expected === 429) expect(Number(header('x-ratelimit-reset'))).toBe(reset);
      else if (expected !== 200) expect(header('x-ratelimit-remaining')).toBe('60');
      // The message lists the statuses that `code` can have.
      if (expected === 400)
        expect(await response.json()).toMatchObject({ message: expect.stringContaining('429') });
    }
  });

  test.each(['status=503', 'error=503', 'latency=200', 'Delay=2', 'respond-async, status="503"'])(
    'with %s instead is 400, and says what works, because people try it',
    async (value) => {
      const { call } = await start();
      const response = await call('/v1/pets', prefer(value));
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        message: expect.stringMatching(
          / is not supported\. Use Prefer: code=503.* for delays, use a fault rule/,
        ),
      });
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

  test('returns sample animals, whatever is in the store', async () => {
    const { store, call } = await start();
    await store.seed(sampleData());
    const made = await call('/v1/pets', prefer('code=201', create(REX)));
    expect(await made.json()).toMatchObject({ id: 1, name: expect.any(String) });
    expect(await store.size()).toBe(66);
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
      const response = await call('/v1/pets', init);
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('1');
      expect(response.headers.get('x-ratelimit-remaining')).toBe(String(60 - i));
      expect(response.headers.has('preference-applied')).toBe(false);
      expect(await response.json()).toEqual({
        code: 'injected_fault',
        message: 'Mocked response (fault rule 1)',
        status: 503,
      });
      expect((await call('/v1/store/orders')).status).toBe(200);
      expect(await store.size()).toBe(0);
    }
    expect((await call('/v1/pets', init)).status).toBe(201);
    expect(await store.size()).toBe(1);
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
          { latency: 40, times: 1 },
          { latency: 0, times: 1 },
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
});

async function startWithFaults(options: Parameters<typeof startReal>[0] = {}) {
  const real = await startWithTools(options);
  const send = async (method: string, body?: string) => {
    const headers = { 'Content-Type': 'application/json' };
    const response = await real.use('/faults', { method, headers, ...(body !== undefined && { body }) });
    return { status: response.status, body: await response.json() };
  };
  const put = (settings: unknown) => send('PUT', JSON.stringify(settings));
  return { ...real, send, put };
}

const TWICE = { match: { method: 'POST', path: '/v1/pets' }, answer: 503, times: 2, retryAfter: 1 };

describe('/faults', () => {
  test('sets rules, shows how often each has applied, and clears them', async () => {
    const { call, send, put } = await startWithFaults();
    expect(await send('GET')).toEqual({ status: 200, body: { seed: 0, rules: [] } });
    const rule = { ...TWICE, number: 1 };
    expect(await put([TWICE])).toEqual({ status: 200, body: { seed: 0, rules: [{ ...rule, applied: 0 }] } });
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await call('/pets', create(REX))).status);
    expect(statuses).toEqual([503, 503, 201]);
    expect((await send('GET')).body).toEqual({ seed: 0, rules: [{ ...rule, applied: 2 }] });
    expect(await send('DELETE')).toEqual({ status: 200, body: { seed: 0, rules: [] } });
    expect((await call('/pets', create(REX))).status).toBe(201);
  });

  test('PUT replaces everything that was set before, the random faults too', async () => {
    const { call, put } = await startWithFaults({ faults: { seed: 4, failRate: 1 } });
    expect((await call('/pets')).status).toBe(503);
    expect((await put([])).body).toEqual({ seed: 4, rules: [] });
    expect((await call('/pets')).status).toBe(200);
  });

  test('POST adds one rule before the others, and leaves them as they are', async () => {
    const { call, send, put } = await startWithFaults();
    await put([TWICE]);
    expect((await call('/pets', create(REX))).status).toBe(503);
    const rule = { match: { method: 'POST', path: '/v1/pets' }, answer: 429, times: 1 };
    expect(await send('POST', JSON.stringify(rule))).toEqual({
      status: 200,
      body: {
        seed: 0,
        rules: [
          { ...rule, number: 2, applied: 0 },
          { ...TWICE, number: 1, applied: 1 },
        ],
      },
    });
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await call('/pets', create(REX))).status);
    expect(statuses).toEqual([429, 503, 201]);
  });

  test('DELETE removes the rule with a number, and leaves the others as they are', async () => {
    const { call, use, put } = await startWithFaults();
    await put([{ answer: 500 }, { answer: 404 }, { answer: 503 }]);
    const remove = async (rule: string) => {
      const response = await use(`/faults?rule=${rule}`, { method: 'DELETE' });
      return [response.status, await response.json()];
    };
    expect((await call('/pets')).status).toBe(500);
    expect(await remove('1')).toMatchObject([200, { rules: [{ number: 2 }, { number: 3 }] }]);
    expect((await call('/pets')).status).toBe(404);
    expect(await remove('3')).toMatchObject([200, { rules: [{ number: 2, applied: 1 }] }]);
    expect(await remove('1')).toMatchObject([404, { code: 'not_found' }]);
    for (const invalid of ['0', 'x', ''])
      expect(await remove(invalid)).toMatchObject([400, { code: 'invalid_request' }]);
    expect((await call('/pets')).status).toBe(404);
  });

  test('POST refuses a rule that is not valid', async () => {
    const { send } = await startWithFaults();
    for (const body of ['[]', '{"rules":[]}', '{"answer":200.5}', '{}', '"x"', '[{"answer":503}]'])
      expect((await send('POST', body)).status).toBe(400);
    expect(((await send('GET')).body as { rules: unknown[] }).rules).toEqual([]);
  });

  test('POST drops the rules that are used up', async () => {
    const { call, send, put } = await startWithFaults();
    await put([{ answer: 503, times: 1 }, { answer: 404 }]);
    expect((await call('/pets')).status).toBe(503);
    expect(await send('POST', '{"answer":500,"times":1}')).toMatchObject({
      status: 200,
      body: { rules: [{ number: 3, answer: 500, applied: 0 }, { number: 2 }] },
    });
    expect((await call('/pets')).status).toBe(500);
  });

  test('anything else is 400 with a short error, and changes nothing', async () => {
    const { put, send } = await startWithFaults();
    const { body: before } = await put([TWICE]);
    const unknown = Array.from({ length: 5_000 }, (_, i) => `"f${i}":0`);
    for (const body of ['fail twice', `{${unknown}}`, '[{"answer":500},{"answer":"500"}]']) {
      const response = await send('PUT', body);
      expect(response.status).toBe(400);
      expect(JSON.stringify(response.body).length).toBeLessThan(400);
      expect((await send('GET')).body).toEqual(before);
    }
  });
});
