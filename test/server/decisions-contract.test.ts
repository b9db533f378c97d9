import { describe, expect, test } from 'vitest';
import { errorCodes } from '../../src/contract/error-codes.ts';
import { sampleData } from '../../src/server/sample-data.ts';
import { create, start } from '../helpers/service.ts';

// The decisions of docs/service.md, by their numbers.

const REX = '{"name":"Rex","categoryId":1}';

test('D11 the codes and their statuses', () => {
  expect(errorCodes).toEqual({
    invalid_request: 400,
    unauthorized: 401,
    not_found: 404,
    method_not_allowed: 405,
    request_timeout: 408,
    idempotency_in_flight: 409,
    operation_removed: 410,
    payload_too_large: 413,
    unsupported_media_type: 415,
    expectation_failed: 417,
    misdirected_request: 421,
    idempotency_mismatch: 422,
    rate_limited: 429,
    key_banned: 429,
    headers_too_large: 431,
    internal_error: 500,
    injected_fault: 503,
    storage_full: 503,
    storage_failed: 503,
    too_many_connections: 503,
  });
});

describe('D12 deprecation', () => {
  test('is announced in every response of the operation', async () => {
    const { store, call } = await start();
    await store.seed(sampleData());
    const anonymous = { headers: { Authorization: '' } };
    for (const [path, init] of [
      ['/v1/pets/1', {}],
      ['/v1/pets/4711', {}],
      ['/v1/pets/x', {}],
      ['/v1/pets/1', anonymous],
      ['/v1/pets/1?limit=1&limit=2', {}],
      ['/v1/pets/1?limit=1&limit=2', anonymous],
    ] as const) {
      const { headers } = await call(path, init);
      expect(headers.get('deprecation')).toBe('@1795132800');
      expect(headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
      expect(headers.get('link')).toBe('</v1/pets>; rel="successor-version"');
    }
    expect((await call('/v1/pets?limit=100')).headers.get('deprecation')).toBeNull();
  });

  test('the operation works until the last millisecond of 4 December 2030, and is 410 after that', async () => {
    const { clock, store, call } = await start({ time: '2030-12-04T23:59:59.999Z' });
    await store.seed(sampleData());
    expect((await call('/v1/pets/1')).status).toBe(200);
    clock.set('2030-12-05T00:00:00Z');
    const gone = await call('/v1/pets/1');
    expect(gone.status).toBe(410);
    expect(gone.headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
    expect(await gone.json()).toEqual({
      code: 'operation_removed',
      message: expect.stringContaining('/pets'),
      status: 410,
    });
    expect((await call('/v1/pets')).status).toBe(200);
  });
});

describe('D14 the body of a creation', () => {
  test('unknown fields and a sent id are ignored', async () => {
    const { call } = await start();
    const response = await call('/v1/pets', create('{"id":77,"name":"Rex","categoryId":1,"colour":"red"}'));
    expect(await response.json()).toEqual({ id: 1, name: 'Rex', categoryId: 1, status: 'available' });
  });

  test.each(['""', '" "', '"\\u0000\\u001b[31m"', '"🐶\\ud800"', '"\\u202e"', `"${'x'.repeat(60_000)}"`])(
    'the name may be %.40s',
    async (name) => {
      const { call } = await start();
      const response = await call('/v1/pets', create(`{"name":${name},"categoryId":1}`));
      expect(response.status).toBe(201);
      expect(await response.json()).toMatchObject({ name: JSON.parse(name) });
    },
  );

  test.each(['0', '-1', '-9007199254740993', '9223372036854775807', '-9223372036854775808'])(
    'the categoryId may be %s',
    async (categoryId) => {
      const { call } = await start();
      const response = await call('/v1/pets', create(`{"name":"Rex","categoryId":${categoryId}}`));
      expect(await response.text()).toContain(`"categoryId":${categoryId},`);
    },
  );
});

describe('D15 methods', () => {
  test.each(['/v1/pets', '/v1/pets/1', '/v1/pets/4711', '/v1/store/orders', '/v1/nothing', '/healthz'])(
    'HEAD %s has the status and headers of GET without the body, and counts',
    async (path) => {
      const { store, call } = await start();
      await store.seed(sampleData());
      const [get, head] = [await call(path), await call(path, { method: 'HEAD' })];
      const comparable = ({ status, headers }: Response) => {
        const all = new Headers(headers);
        for (const name of ['date', 'connection', 'keep-alive', 'x-ratelimit-remaining']) all.delete(name);
        return { status, headers: [...all] };
      };
      expect(comparable(head)).toEqual(comparable(get));
      expect(await head.text()).toBe('');
      if (!path.startsWith('/v1')) return;
      expect([get, head].map(({ headers }) => headers.get('x-ratelimit-remaining'))).toEqual(['59', '58']);
    },
  );

  test.each([
    ['/v1/pets', 'GET, HEAD, POST, OPTIONS'],
    ['/v1/pets/1', 'GET, HEAD, OPTIONS'],
    ['/v1/store/orders', 'GET, HEAD, OPTIONS'],
  ])(
    'OPTIONS %s is 204 with Allow, without a key and uncounted; other methods are 405',
    async (path, allow) => {
      const { call } = await start();
      const options = await call(path, { method: 'OPTIONS', headers: { Authorization: '' } });
      expect(options.status).toBe(204);
      expect(options.headers.get('allow')).toBe(allow);
      expect(options.headers.get('x-ratelimit-limit')).toBe('60');
      await call(path, { method: 'OPTIONS' });
      const put = await call(path, { method: 'PUT', body: REX });
      expect(put.status).toBe(405);
      expect(put.headers.get('allow')).toBe(allow);
      expect(put.headers.get('x-ratelimit-remaining')).toBe('59');
    },
  );

  test('OPTIONS of an unknown path is 404', async () => {
    const { call } = await start();
    expect((await call('/v1/nothing', { method: 'OPTIONS' })).status).toBe(404);
  });
});
