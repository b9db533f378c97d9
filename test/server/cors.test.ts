import { describe, expect, test } from 'vitest';
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

describe('with --cors', () => {
  test('pages of an allowed origin may read all responses, including errors, and their headers', async () => {
    const { call } = await start({ cors: ['http://other.test', PAGE] });
    for (const [path, init] of [
      ['/v1/pets', {}],
      ['/v1/pets?limit=0', {}],
      ['/v1/pets', { headers: { Authorization: '' } }],
      ['/healthz', {}],
    ] as const) {
      const cors = corsOf(await call(path, from(PAGE, init)));
      expect(cors).toEqual({
        vary: 'Origin',
        'access-control-allow-origin': PAGE,
        'access-control-allow-credentials': 'true',
        'access-control-expose-headers': expect.stringMatching(/\bX-RateLimit-Remaining\b.*\bRetry-After\b/),
      });
    }
  });

  test.each([
    'http://evil.example',
    'http://localhost:5174',
    'https://localhost:5173',
    'null',
    `${PAGE}.evil.example`,
  ])('pages of %s may not', async (origin) => {
    const { call } = await start({ cors: [PAGE] });
    expect(corsOf(await call('/v1/pets', from(origin)))).toEqual({ vary: 'Origin' });
  });

  test.each(['/metrics', '/metrics?x=1'])('no page may read %s', async (path) => {
    const metrics = async () => ({ status: 200, body: '' });
    const { call } = await start({ cors: ['*'], metrics });
    const response = await call(path, from(PAGE));
    expect([response.status, corsOf(response)]).toEqual([403, {}]);
  });

  test('* allows every origin', async () => {
    const { call } = await start({ cors: ['*'] });
    expect(corsOf(await call('/v1/pets', from('http://any.example')))).toEqual({
      vary: 'Origin',
      'access-control-allow-origin': '*',
      'access-control-expose-headers': '*',
    });
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

  test('a preflight request is answered before every refusal, so that the page can read the refusal', async () => {
    const { call } = await start({ cors: [PAGE], hosts: new Set(['shop.example']) });
    for (const path of ['/v1/nothing', '/v1/pets/%zz', '/nothing', '/v1/pets?limit=0']) {
      expect((await call(path, preflight(PAGE, 'DELETE'))).status, path).toBe(204);
      const refusal = await call(path, from(PAGE));
      expect([refusal.status >= 400, refusal.headers.get('access-control-allow-origin')]).toEqual([
        true,
        PAGE,
      ]);
    }
  });

  test('a preflight request of another origin allows nothing', async () => {
    const { call } = await start({ cors: [PAGE] });
    const response = await call('/v1/pets', preflight('http://evil.example'));
    expect([response.status, corsOf(response)]).toEqual([204, { vary: 'Origin' }]);
  });

  test.each(['tauri://localhost', 'chrome-extension://abcdefgh'])('pages of %s may', async (origin) => {
    const { call } = await start({ cors: [origin] });
    expect(corsOf(await call('/v1/pets', from(origin)))).toMatchObject({
      'access-control-allow-origin': origin,
    });
  });
});

test('no browser takes a response for a script or a page', async () => {
  const { call } = await start();
  for (const path of ['/v1/pets', '/v1/nothing', '/healthz', '/openapi.json'])
    expect((await call(path)).headers.get('x-content-type-options')).toBe('nosniff');
});
