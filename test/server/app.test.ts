import { expect, test } from 'vitest';
import { sendRaw } from '../helpers/raw-client.ts';
import { start } from '../helpers/service.ts';
import { memoryStore } from '../helpers/store-fixtures.ts';

test('an invalid request is counted, and its response has the headers of its caller', async () => {
  const { call } = await start();
  const broken = await call('/v1/pets?limit=1&limit=2');
  expect(broken.status).toBe(400);
  expect(broken.headers.get('x-ratelimit-remaining')).toBe('59');
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
  const message = 'Internal error; the log of the service says more';
  expect(await response.json()).toEqual({ code: 'internal_error', message, status: 500 });
  expect(response.headers.get('x-ratelimit-remaining')).toBe('59');
  expect(errors).toEqual([new Error('secret detail')]);
});

test('an error before the request is known or while it is counted ends only its connection; the operator gets the error', async () => {
  const fail = () => {
    throw new Error('a bug');
  };
  for (const options of [{ isTrustedProxy: fail }, { countResponse: fail }]) {
    const { errors, call } = await start(options);
    await call('/v1/pets', { headers: { 'X-Forwarded-For': '192.0.2.1' } }).catch(() => {});
    expect(errors).toEqual([new Error('a bug')]);
  }
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
  const ours = { client: '127.0.0.1', time: clock.now(), id: expect.any(String), milliseconds: 0 };
  expect(accessLog).toMatchObject([
    {
      ...ours,
      ...{ id: 'first', keyName: 'shop', method: 'GET', url: '/v1/pets?limit=5' },
      ...{ status: 200, milliseconds: 1_234 },
    },
    { ...ours, method: 'PUT', url: '/nothing', status: 404, code: 'not_found' },
    { ...ours, method: '-', url: '-', status: 400, code: 'invalid_request' },
  ]);
});

test.each([
  ['/v1x/pets', 404],
  ['/v1?limit=1', 401],
  ['/v1', 401],
  ['/v1/nothing', 401],
  ['/', 404],
])('%s without a key is %i: only paths under the version prefix need one', async (path, status) => {
  const { call } = await start();
  expect((await call(path, { headers: { Authorization: '' } })).status).toBe(status);
});
