import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import { createApp } from '../../src/server/app.ts';
import { createMemoryLimiter } from '../../src/server/limiter.ts';
import { listen } from '../../src/server/listen.ts';
import { sampleShop } from '../../src/server/sample.ts';
import { hashKey } from '../../src/store/keys.ts';
import type { Store } from '../../src/store/store.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { MemoryStore } from '../helpers/store-memory.ts';

const KEY = 'pets_test';

async function start({
  quota = plans.free,
  store = new MemoryStore() as Store,
  time = '2026-11-20T12:00:00Z',
} = {}) {
  const clock = manualClock(time);
  const errors: unknown[] = [];
  const app = createApp({
    store,
    keys: { find: async (sha256) => (sha256 === hashKey(KEY) ? { quota } : undefined) },
    limiter: createMemoryLimiter(clock),
    clock,
    onError: (error) => errors.push(error),
  });
  const listening = await listen(app, { host: '127.0.0.1', port: 0 });
  onTestFinished(() => listening.stop(0));
  const call = (path: string, init: RequestInit = {}) =>
    fetch(listening.origin + path, {
      ...init,
      headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json', ...init.headers },
    });
  return { clock, store, errors, listening, call };
}

const create = (body: string, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  body,
  headers,
});

/** Sends bytes as they are, and reads until the service closes or answers once. */
function sendRaw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('close', () => resolve(text));
    socket.on('error', reject);
  });
}

describe('the deprecated operation', () => {
  test('is served until the last millisecond of 4 December 2030, and answers 410 from then on', async () => {
    const { clock, store, call } = await start({ time: '2030-12-04T23:59:59.999Z' });
    await store.seed(sampleShop());
    expect((await call('/v1/pets/1')).status).toBe(200);
    clock.set('2030-12-05T00:00:00Z');
    const gone = await call('/v1/pets/1');
    expect(gone.status).toBe(410);
    expect(await gone.json()).toEqual({
      code: 'operation_removed',
      message: expect.stringContaining('/pets'),
      status: 410,
    });
    expect((await call('/v1/pets')).status).toBe(200);
  });
});

describe('limits', () => {
  test('the 61st request of a minute is refused with Retry-After to its end, whatever it asks for', async () => {
    const { clock, call } = await start({ time: '2026-11-20T12:00:17.300Z' });
    await Promise.all(Array.from({ length: 60 }, () => call('/v1/pets')));
    for (const path of ['/v1/pets', '/v1/pets/1', '/v1/store/orders', '/v1/nothing']) {
      const refused = await call(path);
      expect(refused.status).toBe(429);
      expect(refused.headers.get('retry-after')).toBe('43');
    }
    clock.set('2026-11-20T12:00:59.999Z');
    expect((await call('/v1/pets')).headers.get('retry-after')).toBe('1');
    clock.set('2026-11-20T12:01:00Z');
    expect((await call('/v1/pets')).status).toBe(200);
  });

  test('a creation that is refused by the limit adds nothing', async () => {
    const { store, call } = await start({ quota: { perMinute: 1, perDay: 10 } });
    await call('/v1/pets');
    expect((await call('/v1/pets', create('{"name":"Rex","categoryId":1}'))).status).toBe(429);
    expect(await store.size()).toBe(0);
  });

  test('without a valid key the headers show 60 a minute, and a good key is not hindered', async () => {
    const { call } = await start();
    for (let i = 1; i <= 70; i++) {
      const { status, headers } = await call('/v1/pets', { headers: { Authorization: 'Bearer wrong' } });
      expect(status).toBe(401);
      expect(headers.get('x-ratelimit-limit')).toBe('60');
      expect(headers.get('x-ratelimit-remaining')).toBe(String(Math.max(0, 60 - i)));
    }
    expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });
});

describe('an Idempotency-Key', () => {
  const body = '{"name":"Rex","categoryId":1}';
  const headers = { 'Idempotency-Key': '"a-key"' };

  test('makes a repeated creation answer with the first animal', async () => {
    const { store, call } = await start();
    const first = await call('/v1/pets', create(body, headers));
    const again = await call(
      '/v1/pets',
      create(' {"categoryId":1, "status":"available","name":"Rex"}', headers),
    );
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(first.headers.get('idempotency-replayed')).toBeNull();
    expect(await again.text()).toBe(await first.text());
    expect(await store.size()).toBe(1);
  });

  test('with another body is 422, and malformed 400; neither adds', async () => {
    const { store, call } = await start();
    await call('/v1/pets', create(body, headers));
    const other = await call('/v1/pets', create('{"name":"Rex","categoryId":2}', headers));
    expect(other.status).toBe(422);
    for (const value of ['""', '"open', 'a b', '"é"', `"${'x'.repeat(256)}"`]) {
      const malformed = await call('/v1/pets', create(body, { 'Idempotency-Key': value }));
      expect(malformed.status).toBe(400);
    }
    expect(await store.size()).toBe(1);
  });

  test('is announced as supported to a valid key, and to no other', async () => {
    const { call } = await start();
    expect((await call('/v1/pets')).headers.get('idempotency-supported')).toBe('true');
    expect((await call('/v1/nothing')).headers.get('idempotency-supported')).toBe('true');
    const stranger = await call('/v1/pets', { headers: { Authorization: 'Bearer wrong' } });
    expect(stranger.headers.get('idempotency-supported')).toBeNull();
  });
});

describe('methods', () => {
  test('HEAD answers as GET does, without the body', async () => {
    const { store, call } = await start();
    await store.seed(sampleShop());
    const [head, get] = [await call('/v1/pets', { method: 'HEAD' }), await call('/v1/pets')];
    expect(head.status).toBe(200);
    expect(head.headers.get('content-length')).toBe(get.headers.get('content-length'));
    expect(await head.text()).toBe('');
  });

  test('OPTIONS answers 204 with Allow, without a key, and counts nothing', async () => {
    const { call } = await start();
    const options = await call('/v1/pets', { method: 'OPTIONS', headers: { Authorization: '' } });
    expect(options.status).toBe(204);
    expect(options.headers.get('allow')).toBe('GET, HEAD, POST, OPTIONS');
    expect(options.headers.get('x-ratelimit-limit')).toBe('60');
    expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });
});

test('/healthz answers without a key, with the id of the store', async () => {
  const { store, call } = await start();
  const answer = await call('/healthz', { headers: { Authorization: '' } });
  expect(await answer.json()).toEqual({ status: 'ok', store: store.id });
});

test('a failure of the service is a 500 with an Error body that tells nothing of it, and is told to the operator', async () => {
  const store = new MemoryStore();
  store.list = async () => {
    throw new Error('secret detail');
  };
  const { errors, call } = await start({ store });
  const answer = await call('/v1/pets');
  expect(answer.status).toBe(500);
  expect(await answer.json()).toEqual({
    code: 'internal_error',
    message: 'The service has failed',
    status: 500,
  });
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('59');
  expect(errors).toEqual([new Error('secret detail')]);
});

describe('what Node itself refuses carries the Error body and the three headers', () => {
  test.each([
    ['no HTTP', 'nonsense\r\n\r\n', 400, 'invalid_request'],
    [
      'headers of 9 KiB',
      `GET /v1/pets HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(9_216)}\r\n\r\n`,
      431,
      'headers_too_large',
    ],
    [
      'a length and chunks',
      'POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
      'invalid_request',
    ],
  ])('%s', async (_name, bytes, status, code) => {
    const { listening } = await start();
    const [head = '', body = ''] = (await sendRaw(listening.port, bytes)).split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(head).toMatch(/X-RateLimit-Limit: 60\r\nX-RateLimit-Remaining: 60\r\nX-RateLimit-Reset: \d+/);
    expect(JSON.parse(body)).toEqual({ code, message: expect.any(String), status });
  });

  test('two Authorization headers are 400', async () => {
    const { listening } = await start();
    const bytes = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer ${KEY}\r\nAuthorization: Bearer ${KEY}\r\n\r\n`;
    expect(await sendRaw(listening.port, bytes)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

test('a body that is too large is refused by what arrives, and by 413, though it says nothing of its length', async () => {
  const { store, listening } = await start();
  const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`;
  const answer = await sendRaw(listening.port, `${head}${chunk.repeat(5)}0\r\n\r\n`);
  expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  expect(await store.size()).toBe(0);
});

test('stopping answers the request that runs, and takes no other', async () => {
  const store = new MemoryStore();
  const [begun, held] = [gate(), gate()];
  store.list = async () => {
    begun.open();
    await held.opened;
    return { pets: [] };
  };
  const { listening, call } = await start({ store });
  const running = call('/v1/pets');
  await begun.opened;
  const stopped = listening.stop(5_000);
  await expect(call('/v1/pets')).rejects.toThrow();
  const released = performance.now();
  held.open();
  expect((await running).status).toBe(200);
  await stopped;
  // Not the five seconds of an idle connection.
  expect(performance.now() - released).toBeLessThan(2_000);
});
