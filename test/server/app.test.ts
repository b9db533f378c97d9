import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { gate } from '../helpers/gate.ts';
import { sendRaw } from '../helpers/raw-client.ts';
import { start } from '../helpers/service.ts';
import { memoryStore } from '../helpers/store-fixtures.ts';

test('an invalid request is counted, and its response has the headers of its caller', async () => {
  const { call } = await start();
  const broken = await call('/v1/pets?limit=1&limit=2');
  expect(broken.status).toBe(400);
  expect(broken.headers.get('x-ratelimit-remaining')).toBe('59');
  expect(broken.headers.get('idempotency-supported')).toBe('true');
  expect((await call('/v1/pets/%zz')).headers.get('x-ratelimit-remaining')).toBe('58');
  const anonymous = await call('/v1/pets?limit=1&limit=2', { headers: { Authorization: '' } });
  expect(anonymous.status).toBe(401);
});

test('/healthz needs no key and returns the id of the store', async () => {
  const { store, call } = await start();
  const response = await call('/healthz', { headers: { Authorization: '' } });
  expect(await response.json()).toEqual({ status: 'ok', store: store.id });
});

test('an internal error is a 500 without details; the operator gets the error', async () => {
  const store = await memoryStore();
  store.list = async () => {
    throw new Error('secret detail');
  };
  const { errors, call } = await start({ store });
  const response = await call('/v1/pets');
  expect(response.status).toBe(500);
  expect(await response.json()).toEqual({
    code: 'internal_error',
    message: 'Internal error',
    status: 500,
  });
  expect(response.headers.get('x-ratelimit-remaining')).toBe('59');
  expect(errors).toEqual([new Error('secret detail')]);
});

test('an error before the request is known ends its connection; the operator gets the error', async () => {
  const isTrustedProxy = () => {
    throw new Error('no proxy');
  };
  const { errors, call } = await start({ isTrustedProxy });
  await expect(call('/v1/pets', { headers: { 'X-Forwarded-For': '192.0.2.1' } })).rejects.toThrow();
  expect(errors).toEqual([new Error('no proxy')]);
});

test('an error while a response is counted does not end the service; the operator gets the error', async () => {
  const countResponse = () => {
    throw new Error('no count');
  };
  const { errors, call } = await start({ countResponse });
  await call('/v1/pets').catch(() => {});
  expect(errors).toEqual([new Error('no count')]);
});

test('stopping does not wait for a client that sent invalid bytes and stays connected', async () => {
  const { listening } = await start();
  const socket = connect({ port: listening.port, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  const ended = once(socket.resume(), 'end');
  socket.write('nonsense\r\n\r\n');
  await ended;
  await listening.stop(60_000);
});

test('the access log gets every response once, with its duration', async () => {
  const store = await memoryStore();
  const { clock, listening, accessLog, call } = await start({ store });
  store.list = async () => {
    clock.advance(1_234);
    return { pets: Buffer.alloc(0) };
  };
  await call('/v1/pets?limit=5', { headers: { 'X-Request-Id': 'first' } });
  await call('/nothing', { method: 'PUT', body: '{}' });
  await sendRaw(listening.port, 'not HTTP\r\n\r\n');
  const ours = { client: '127.0.0.1', time: clock.now() };
  expect(accessLog).toEqual([
    {
      ...ours,
      id: 'first',
      keyName: 'shop',
      method: 'GET',
      url: '/v1/pets?limit=5',
      status: 200,
      milliseconds: 1_234,
    },
    {
      ...ours,
      id: expect.any(String),
      method: 'PUT',
      url: '/nothing',
      status: 404,
      code: 'not_found',
      milliseconds: 0,
    },
    {
      ...ours,
      id: expect.any(String),
      method: '-',
      url: '-',
      status: 400,
      code: 'invalid_request',
      milliseconds: 0,
    },
  ]);
});

test('stopping closes the connection of a request that outlasts the grace period', async () => {
  const store = await memoryStore();
  const started = gate();
  store.list = () => {
    started.open();
    return new Promise(() => {});
  };
  const { listening, call } = await start({ store });
  const running = call('/v1/pets').catch((error: unknown) => error);
  await started.opened;
  await listening.stop(50);
  expect(await running).toBeInstanceOf(TypeError);
});

test('stopping finishes the running request and accepts no other', async () => {
  const store = await memoryStore();
  const [started, held] = [gate(), gate()];
  store.list = async () => {
    started.open();
    await held.opened;
    return { pets: Buffer.alloc(0) };
  };
  const { listening, call } = await start({ store });
  const running = call('/v1/pets');
  await started.opened;
  const stopped = listening.stop(60_000);
  await expect(call('/v1/pets')).rejects.toThrow();
  held.open();
  expect((await running).status).toBe(200);
  await stopped;
});

test.each([
  ['/v1x/pets', 404],
  ['/v1?limit=1', 401],
  ['/v1', 401],
  ['/', 404],
  ['/v2/pets', 404],
])('%s without a key is %i: only paths under the version prefix need one', async (path, status) => {
  const { call } = await start();
  expect((await call(path, { headers: { Authorization: '' } })).status).toBe(status);
});
