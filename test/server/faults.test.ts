import { describe, expect, onTestFinished, test } from 'vitest';
import { operations } from '../../src/contract/operations.ts';
import { drawFault } from '../../src/server/faults/faults.ts';
import { sampleData } from '../../src/server/sample-data.ts';
import { gate } from '../helpers/gate.ts';
import { REX } from '../helpers/raw-requests.ts';
import { startReal } from '../helpers/real-service.ts';
import { create, start } from '../helpers/service.ts';

const prefer = (value: string, init: RequestInit = {}): RequestInit => ({
  ...init,
  headers: { ...(init.headers as Record<string, string>), Prefer: value },
});

describe('the fault of the nth request', () => {
  const options = { latency: { min: 100, max: 300 }, failRate: 0.25, seed: 7 };
  const first = (count: number, changes: Partial<typeof options> = {}) =>
    Array.from({ length: count }, (_, n) => drawFault({ ...options, ...changes }, n));

  test('depends only on the seed', () => {
    expect(first(1_000)).toEqual(first(1_000));
    expect(first(1_000)).not.toEqual(first(1_000, { seed: 8 }));
    // These values are fixed, because later versions must produce the same faults for a seed.
    expect(first(4)).toEqual([
      { fails: true, latency: 260 },
      { fails: false, latency: 184 },
      { fails: false, latency: 204 },
      { fails: false, latency: 242 },
    ]);
  });

  test('is distributed evenly: latencies over their range, failures at their rate', () => {
    const faults = first(10_000);
    const latencies = faults.map(({ latency }) => latency);
    expect(Math.min(...latencies)).toBe(100);
    expect(Math.max(...latencies)).toBe(300);
    expect(latencies.reduce((sum, each) => sum + each, 0) / 10_000).toBeCloseTo(200, -1);
    expect(faults.filter(({ fails }) => fails).length / 10_000).toBeCloseTo(0.25, 1);
    expect(first(500, { failRate: 0 }).filter(({ fails }) => fails)).toEqual([]);
  });
});

describe('--fail-rate', () => {
  test('causes a 503 that is not counted and stores nothing', async () => {
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

  test('a creation that is repeated until it succeeds adds one animal', async () => {
    const { store, call } = await start({ faults: { failRate: 0.7, seed: 3 } });
    const statuses: number[] = [];
    while (statuses.at(-1) !== 201 && statuses.length < 50) {
      statuses.push((await call('/v1/pets', create(REX, { 'Idempotency-Key': '"a"' }))).status);
    }
    expect(new Set(statuses)).toEqual(new Set([503, 201]));
    expect(await store.size()).toBe(1);
  });

  test('does not replace a 401, and affects neither OPTIONS nor routes outside the API', async () => {
    const { call } = await start({ faults: { failRate: 1, seed: 1 } });
    expect((await call('/v1/pets', { headers: { Authorization: '' } })).status).toBe(401);
    expect((await call('/v1/pets', { method: 'OPTIONS' })).status).toBe(204);
    expect((await call('/healthz')).status).toBe(200);
  });
});

describe('--latency', () => {
  test('delays every response, including errors, but none outside the API', async () => {
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

  test('a delayed response is sent immediately when the service stops', async () => {
    const [started, ended] = [gate(), gate()];
    const service = await startReal({
      faults: { latency: { min: 600_000, max: 600_000 }, seed: 1 },
      sleep: (_milliseconds, signal) => {
        started.open();
        return new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            ended.open();
            reject(signal.reason);
          });
        });
      },
    });
    const response = service.call('/pets', create(REX));
    await started.opened;
    const restarted = service.restart();
    await ended.opened;
    expect((await response).status).toBe(201);
    await restarted;
  });
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

  test.each([
    'code=503',
    'Code=503',
    'code="503"',
    'respond-async, code=503',
    'code=503; foo=bar',
    'wait=10 , code = 503',
    'x="a, b", code=503',
  ])('is recognised in %s', async (value) => {
    const { call } = await start();
    expect((await call('/v1/pets', prefer(value))).status).toBe(503);
  });

  test.each([
    '',
    'return=minimal',
    'respond-async',
    'barcode=503',
    'return="code=503"',
    'x="a, code=503"',
    'x="\\", code=503"',
    'codes=503',
  ])('other preferences are ignored: %s', async (value) => {
    const { call } = await start();
    const response = await call('/v1/pets', prefer(value));
    expect(response.status).toBe(200);
    expect(response.headers.has('preference-applied')).toBe(false);
  });

  test.each(['418', '201', '20', '', '4290', 'toString', '-1'])(
    'a status that the operation never has is 400 with a list of the possible ones: %j',
    async (code) => {
      const { call } = await start();
      const response = await call('/v1/pets', prefer(`code=${code}`));
      expect(response.status).toBe(400);
      expect(response.headers.has('preference-applied')).toBe(false);
      expect(await response.json()).toMatchObject({ message: expect.stringContaining('429') });
    },
  );

  test('needs a key, a known path and an allowed method', async () => {
    const { call } = await start();
    expect((await call('/v1/pets', prefer('code=200', { headers: { Authorization: '' } }))).status).toBe(401);
    expect((await call('/v1/nothing', prefer('code=200'))).status).toBe(404);
    expect((await call('/v1/pets', prefer('code=200', { method: 'PUT' }))).status).toBe(405);
  });

  test('never hides a used-up limit or a ban: such a request gets its real 429', async () => {
    const service = await startReal();
    const key = await service.makeKey({
      name: 'small',
      plan: 'enterprise',
      quota: { perMinute: 1, perDay: 9 },
    });
    const call = (init: RequestInit) =>
      service.call('/pets', { ...init, headers: { ...init.headers, Authorization: `Bearer ${key}` } });
    expect((await call(prefer('code=503'))).status).toBe(503);
    expect((await call({})).status).toBe(200);
    const refused = await call(prefer('code=200'));
    expect(await refused.json()).toMatchObject({ code: 'rate_limited' });
    expect(refused.headers.has('preference-applied')).toBe(false);
    service.clock.advance(2_000);
    for (let i = 0; i < 10; i++) await call(prefer('code=200'));
    expect(await (await call(prefer('code=200'))).json()).toMatchObject({ code: 'key_banned' });
  });

  test('gets the real 429 also if --fail-rate chose the request', async () => {
    const fails = (seed: number, n: number) => drawFault({ seed, failRate: 0.5 }, n).fails;
    const seed = [...Array(100).keys()].find((each) => !fails(each, 0) && fails(each, 1));
    const faults = { seed: seed ?? 0, failRate: 0.5 };
    const { call } = await start({ quota: { perMinute: 1, perDay: 9 }, faults });
    expect((await call('/v1/pets')).status).toBe(200);
    expect((await call('/v1/pets', prefer('code=200'))).status).toBe(429);
  });

  test('returns sample animals, whatever is in the store', async () => {
    const { store, call } = await start();
    await store.seed(sampleData());
    const made = await call('/v1/pets', prefer('code=201', create(REX)));
    expect(await made.json()).toMatchObject({ id: 1, name: expect.any(String) });
    expect(await store.size()).toBe(66);
  });
});
