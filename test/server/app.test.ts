import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { gate } from '../helpers/gate.ts';
import { sendRaw } from '../helpers/raw-client.ts';
import { KEY, start } from '../helpers/service.ts';
import { MemoryStore } from '../helpers/store-memory.ts';

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
  expect((await sendRaw(listening.port, 'nonsense\r\n\r\n'))[0]?.status).toBe(400);
  expect(errors.length).toBeGreaterThan(0);
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
    return { pets: Buffer.from('[]') };
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

test.each([
  ['/v1x/pets', 404],
  ['/v1?limit=1', 401],
  ['/v1', 401],
  ['/', 404],
  ['/v2/pets', 404],
])('%s without a key is %i: only what is under the version needs one', async (path, status) => {
  const { call } = await start();
  expect((await call(path, { headers: { Authorization: '' } })).status).toBe(status);
});

test.each(['/healthz', '/openapi.json'])('%s has GET, HEAD and OPTIONS', async (path) => {
  const { call } = await start();
  const options = await call(path, { method: 'OPTIONS' });
  expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET, HEAD, OPTIONS']);
  expect((await call(path, { method: 'HEAD' })).status).toBe(200);
  const put = await call(path, { method: 'PUT', body: '{}' });
  expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS']);
});

test.each([`bearer ${KEY}`, `BEARER   ${KEY}`, `Bearer ${KEY} `])(
  'the credential %j is the key',
  async (value) => {
    const { call } = await start();
    expect((await call('/v1/pets', { headers: { Authorization: value } })).status).toBe(200);
  },
);

test('what is told of a request has the time that it took', async () => {
  const store = new MemoryStore();
  const { clock, answered, call } = await start({ store });
  store.list = async () => {
    clock.advance(1_234);
    return { pets: Buffer.from('[]') };
  };
  await call('/v1/pets');
  expect(answered).toEqual([{ method: 'GET', url: '/v1/pets', status: 200, milliseconds: 1_234 }]);
});
