import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import { sampleShop } from '../../src/server/sample.ts';
import { gate } from '../helpers/gate.ts';
import { create, KEY, OTHER_KEY, sendRaw, start } from '../helpers/service.ts';
import { MemoryStore } from '../helpers/store-memory.ts';

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

  test('a request that cannot be understood is counted like any other, and its answer is for its caller', async () => {
    const { call } = await start();
    const broken = await call('/v1/pets?limit=1&limit=2');
    expect(broken.status).toBe(400);
    expect(broken.headers.get('x-ratelimit-remaining')).toBe('59');
    expect(broken.headers.get('idempotency-supported')).toBe('true');
    expect((await call('/v1/pets/%zz')).headers.get('x-ratelimit-remaining')).toBe('58');
    const stranger = await call('/v1/pets?limit=1&limit=2', { headers: { Authorization: '' } });
    expect(stranger.status).toBe(401);
  });

  test('X-RateLimit-Reset is the second at which the window ends', async () => {
    const { call } = await start({ time: '2026-11-20T12:00:17.300Z' });
    const { headers } = await call('/v1/pets');
    expect(headers.get('x-ratelimit-reset')).toBe(String(Date.parse('2026-11-20T12:01:00Z') / 1_000));
  });

  test('a limiter that fails is a 500 with every header, and the service lives on', async () => {
    const { listening, errors } = await start({
      limiter: {
        take: () => Promise.reject(new Error('no limiter')),
        peek: () => Promise.reject(new Error('no limiter')),
      },
    });
    for (let i = 0; i < 2; i++) {
      const answer = await fetch(`${listening.origin}/v1/pets`, {
        headers: { Authorization: `Bearer ${KEY}` },
      });
      expect(answer.status).toBe(500);
      expect(answer.headers.get('x-ratelimit-limit')).toBe('60');
    }
    expect(await sendRaw(listening.port, 'nonsense\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /);
    expect(errors.length).toBeGreaterThan(0);
  });
});

describe('pages', () => {
  test('the next link keeps the limit and the status', async () => {
    const { store, call } = await start();
    await store.seed(sampleShop());
    const { headers } = await call('/v1/pets?status=sold&limit=3');
    const next = new URL(/^<([^>]+)>/.exec(headers.get('link') ?? '')?.[1] ?? '', 'http://service');
    expect(Object.fromEntries(next.searchParams)).toEqual({
      limit: '3',
      status: 'sold',
      cursor: expect.any(String),
    });
  });

  test('show every animal exactly once, while others are added', async () => {
    const { store, call } = await start({ quota: plans.enterprise });
    await store.seed(sampleShop());
    const seen: number[] = [];
    let path: string | undefined = '/v1/pets?limit=10';
    for (let page = 0; path !== undefined && page < 30; page++) {
      const answer: Response = await call(path);
      seen.push(...((await answer.json()) as { id: number }[]).map(({ id }) => id));
      path = /^<([^>]+)>/.exec(answer.headers.get('link') ?? '')?.[1];
      if (page < 3) await call('/v1/pets', create('{"name":"Late","categoryId":1}'));
    }
    expect(seen).toEqual(Array.from({ length: 69 }, (_, i) => i + 1));
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

  test('of another API key is another: both add', async () => {
    const { store, call } = await start();
    const [mine, theirs] = [
      await call('/v1/pets', create(body, headers)),
      await call('/v1/pets', create(body, { ...headers, Authorization: `Bearer ${OTHER_KEY}` })),
    ];
    expect([mine.status, theirs.status]).toEqual([201, 201]);
    expect(theirs.headers.get('idempotency-replayed')).toBeNull();
    expect(await store.size()).toBe(2);
  });

  test('with another status is 422: it is another animal', async () => {
    const { call } = await start();
    await call('/v1/pets', create(body, headers));
    expect(
      (await call('/v1/pets', create('{"name":"Rex","categoryId":1,"status":"sold"}', headers))).status,
    ).toBe(422);
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

describe('a request that is never complete', () => {
  const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\n`;

  test('adds nothing after it was refused, though its rest arrives', async () => {
    const { store, listening, answered } = await start();
    const socket = connect(listening.port, '127.0.0.1');
    const closed = once(socket.resume(), 'close');
    // Chunks with an extension that Node refuses, and behind it what would complete the body.
    socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`);
    socket.write(`zz\r\n`);
    socket.write(`1d\r\n"name":"Rex","categoryId":1}\r\n0\r\n\r\n`);
    await closed;
    await expect.poll(() => answered.length).toBeLessThanOrEqual(1);
    expect(await store.size()).toBe(0);
  });

  test('is answered and forgotten where its sender has left in the middle of the body', async () => {
    const { store, listening, answered } = await start();
    const socket = connect(listening.port, '127.0.0.1');
    await new Promise((resolve) => socket.write(`${head}Content-Length: 100\r\n\r\n{"name":`, resolve));
    socket.destroy();
    await expect.poll(() => answered.map(({ status }) => status)).toEqual([400]);
    expect(await store.size()).toBe(0);
  });

  test('does not hold up the stop, when its sender has sent nonsense and stays', async () => {
    const { listening } = await start();
    const socket = connect({ port: listening.port, host: '127.0.0.1', allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    const ended = once(socket.resume(), 'end');
    socket.write('nonsense\r\n\r\n');
    await ended;
    const began = performance.now();
    await listening.stop(8_000);
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});

test('every answer is told to who asked for it, once', async () => {
  const { answered, call } = await start();
  await call('/v1/pets?limit=5');
  await call('/nothing', { method: 'PUT', body: '{}' });
  expect(answered).toEqual([
    { method: 'GET', url: '/v1/pets?limit=5', status: 200, milliseconds: 0 },
    { method: 'PUT', url: '/nothing', status: 404, milliseconds: 0 },
  ]);
});

test('stopping cuts a request that outlasts the grace', async () => {
  const store = new MemoryStore();
  const begun = gate();
  store.list = () => {
    begun.open();
    return new Promise(() => {});
  };
  const { listening, call } = await start({ store });
  const running = call('/v1/pets').catch((error: unknown) => error);
  await begun.opened;
  await listening.stop(50);
  expect(await running).toBeInstanceOf(TypeError);
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
