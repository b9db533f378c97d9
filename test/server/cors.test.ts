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
        'access-control-expose-headers': '*',
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
    expect([response.status, corsOf(response)]).toEqual([200, {}]);
  });

  test('* allows every origin', async () => {
    const { call } = await start({ cors: ['*'] });
    expect(corsOf(await call('/v1/pets', from('http://any.example')))).toMatchObject({
      'access-control-allow-origin': '*',
    });
  });

  test('a preflight request needs no key, is not counted, and allows the methods and headers of the API', async () => {
    const { call } = await start({ cors: [PAGE] });
    const preflight = await call('/v1/pets', {
      method: 'OPTIONS',
      headers: { Authorization: '', Origin: PAGE, 'Access-Control-Request-Method': 'POST' },
    });
    expect(preflight.status).toBe(204);
    expect(corsOf(preflight)).toMatchObject({
      'access-control-allow-origin': PAGE,
      'access-control-allow-methods': 'GET, HEAD, POST, OPTIONS',
      'access-control-allow-headers': 'Authorization, *',
      'access-control-max-age': '600',
    });
    expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });
});
