import { describe, expect, test } from 'vitest';
import { sampleData } from '../../src/server/mocks.ts';
import { expectCommonHeaders, REX } from '../helpers/raw-client.ts';
import { startReal } from '../helpers/real-service.ts';
import { create, operationPaths, start } from '../helpers/service.ts';

// `D12` and so on are the numbers of the details in docs/service.md.

test('D12 a deprecated operation works until the last millisecond of 4 December 2030, and is 410 after that', async () => {
  const { clock, store, call } = await start({ time: '2030-12-04T23:59:59.999Z' });
  await store.seed(sampleData());
  const deprecated = await call('/v1/pets/1');
  clock.set('2030-12-05T00:00:00Z');
  const gone = await call('/v1/pets/1');
  expect([deprecated.status, gone.status]).toEqual([200, 410]);
  for (const { headers } of [deprecated, gone]) {
    expect(headers.get('deprecation')).toBe('@1795132800');
    expect(headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
    expect(headers.get('link')).toBe('</v1/pets>; rel="successor-version"');
  }
  expect(await gone.json()).toMatchObject({
    code: 'operation_removed',
    message: expect.stringContaining('/pets'),
  });
  expect((await call('/v1/pets')).status).toBe(200);
});

describe('D14 the body of a creation', () => {
  test('a stored name with a lone surrogate is served, also after a restart', async () => {
    const pets = [{ id: 1n, name: '🐶\ud800', categoryId: 1n, status: 'sold' as const }];
    const service = await startReal({ seed: async () => ({ pets, orders: [] }) });
    await service.restart();
    for (const path of ['/pets', '/pets/1']) {
      expect(await (await service.call(path)).text()).toContain('"name":"🐶\\ud800"');
    }
  });

  test.each([
    ['[]', 'The body must be a JSON object'],
    ['{"name":7,"categoryId":3,"status":"lost"}', /^name must be a string; status must be one of available/],
    ['{"name":"Rex",\n }', /^The body is not valid JSON: error in line 2, column 2$/],
    ['['.repeat(33), 'The body is nested deeper than 32 levels'],
    [' ', 'The body is empty'],
  ])('the message of the 400 for %s names each field and its problem', async (body, message) => {
    const { call } = await start();
    const response = await call('/v1/pets', create(body));
    expect(await response.json()).toMatchObject({ status: 400, message: expect.stringMatching(message) });
  });
});

test.each([
  ['?limit=5&cursor=3', 'cursor is not valid, so start again without it'],
  [
    '?limit=1e1&cursor=&status=',
    'limit must be an integer from 1 to 100; status must be one of available, pending, sold; cursor is not valid, so start again without it',
  ],
])('D2 the message of the 400 for the query %s names every problem', async (query, message) => {
  const { call } = await start();
  expect(await (await call(`/v1/pets${query}`)).json()).toMatchObject({ status: 400, message });
});

describe('D15 methods', () => {
  test.each([...operationPaths, '/v1/pets/4711', '/v1/nothing', '/healthz', '/openapi.json'])(
    'HEAD %s has the status and headers of GET without the body, and counts',
    async (path) => {
      const { store, call } = await start();
      await store.seed(sampleData());
      const headers = { 'X-Request-Id': 'same' };
      const [get, head] = [await call(path, { headers }), await call(path, { method: 'HEAD', headers })];
      const comparable = ({ status, headers }: Response) => {
        const all = new Headers(headers);
        for (const name of ['date', 'connection', 'keep-alive', 'x-ratelimit-remaining', 'ratelimit'])
          all.delete(name);
        return { status, headers: [...all] };
      };
      expect(comparable(head)).toEqual(comparable(get));
      expect(await head.text()).toBe('');
      expectCommonHeaders(Object.fromEntries(get.headers));
      if (!path.startsWith('/v1')) return;
      expect([get, head].map(({ headers }) => headers.get('x-ratelimit-remaining'))).toEqual(['59', '58']);
    },
  );

  test.each([...operationPaths, '/healthz', '/openapi.json'])(
    'OPTIONS %s is 204 with Allow, without a key and uncounted; other methods are 405',
    async (path) => {
      const allow = path === '/v1/pets' ? 'GET, HEAD, POST, OPTIONS' : 'GET, HEAD, OPTIONS';
      const { call } = await start();
      const options = await call(path, { method: 'OPTIONS', headers: { Authorization: '' } });
      expect(options.status).toBe(204);
      expect(options.headers.get('allow')).toBe(allow);
      expect(options.headers.get('x-ratelimit-limit')).toBe('60');
      await call(path, { method: 'OPTIONS' });
      const put = await call(path, { method: 'PUT', body: REX });
      expect(put.status).toBe(405);
      expect(put.headers.get('allow')).toBe(allow);
      expect(put.headers.get('x-ratelimit-remaining')).toBe(path.startsWith('/v1') ? '59' : '60');
    },
  );

  test('OPTIONS of an unknown path is 404', async () => {
    const { call } = await start();
    for (const path of ['/v1/nothing', '/nothing', '/%76%31/pets'])
      expect((await call(path, { method: 'OPTIONS' })).status).toBe(404);
  });
});
