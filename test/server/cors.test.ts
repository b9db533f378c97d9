import { expect, test } from 'vitest';
import { start } from '../helpers/service.ts';

const PAGE = 'http://localhost:5173';
const from = (origin: string, init: RequestInit = {}): RequestInit => ({
  ...init,
  headers: { ...init.headers, Origin: origin },
});
const corsOf = ({ headers }: Response) =>
  Object.fromEntries([...headers].filter(([name]) => name.startsWith('access-control') || name === 'vary'));

test('without --cors no response has a CORS header', async () => {
  const { call } = await start();
  for (const init of [from(PAGE), from(PAGE, { method: 'OPTIONS' })])
    expect(corsOf(await call('/v1/pets', init))).toEqual({});
});

test.each([PAGE, 'tauri://localhost', 'chrome-extension://abcdefgh'])(
  'pages of the allowed origin %s may read all responses, including errors, and their headers',
  async (origin) => {
    const { call } = await start({ cors: ['http://other.test', origin] });
    for (const [path, init] of [
      ['/v1/pets', {}],
      ['/v1/pets?limit=0', {}],
      ['/v1/pets', { headers: { Authorization: '' } }],
      ['/healthz', {}],
    ] as const) {
      expect(corsOf(await call(path, from(origin, init)))).toEqual({
        vary: 'Origin',
        'access-control-allow-origin': origin,
        'access-control-allow-credentials': 'true',
        'access-control-expose-headers': expect.stringMatching(/\bX-RateLimit-Remaining\b.*\bRetry-After\b/),
      });
    }
  },
);

test.each(['http://localhost:5174', 'https://localhost:5173', 'null', `${PAGE}.evil.example`])(
  'pages of the other origin %s may not, whatever the method',
  async (origin) => {
    const { call } = await start({ cors: [PAGE] });
    expect(corsOf(await call('/v1/pets', from(origin)))).toEqual({ vary: 'Origin' });
    const response = await call('/v1/pets', preflight(origin));
    expect([response.status, corsOf(response)]).toEqual([204, { vary: 'Origin' }]);
  },
);

test('with --cors *, pages of every origin may read responses, except /metrics; a named one may send credentials', async () => {
  const metrics = async () => ({ status: 200, body: '' });
  const { call } = await start({ cors: ['*', PAGE], metrics });
  expect(corsOf(await call('/v1/pets', from(PAGE)))).toHaveProperty('access-control-allow-credentials');
  expect(corsOf(await call('/v1/pets', from('http://any.example')))).toEqual({
    vary: 'Origin',
    'access-control-allow-origin': '*',
    'access-control-expose-headers': '*',
  });
  for (const path of ['/metrics', '/metrics?x=1']) {
    const response = await call(path, from(PAGE));
    expect([response.status, corsOf(response)]).toEqual([403, {}]);
  }
});

const preflight = (origin: string, method = 'POST') =>
  from(origin, {
    method: 'OPTIONS',
    headers: {
      Authorization: '',
      'Access-Control-Request-Method': method,
      'Access-Control-Request-Headers': 'authorization,x-mine',
    },
  });

test('a preflight request needs no key, is not counted, and allows what the page asks for', async () => {
  const { call } = await start({ cors: [PAGE] });
  const response = await call('/v1/pets', preflight(PAGE));
  expect(response.status).toBe(204);
  expect(corsOf(response)).toMatchObject({
    'access-control-allow-origin': PAGE,
    'access-control-allow-credentials': 'true',
    'access-control-allow-methods': 'POST',
    'access-control-allow-headers': 'authorization,x-mine',
    'access-control-max-age': '600',
  });
  expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
});

test.each(['/v1/nothing', '/v1/pets/%zz', '/nothing', '/v1/pets?limit=0'])(
  'a preflight request for %s is answered before every refusal, which the page can then read',
  async (path) => {
    const { call } = await start({ cors: [PAGE], hosts: new Set(['shop.example']) });
    expect((await call(path, preflight(PAGE, 'DELETE'))).status).toBe(204);
    const { status, headers } = await call(path, from(PAGE));
    expect([status >= 400, headers.get('access-control-allow-origin')]).toEqual([true, PAGE]);
  },
);
