import { describe, expect, test } from 'vitest';
import { MAX_QUOTA, plans } from '../../src/contract/api.ts';
import { CLOSE, connectTo, HOST, JSON_TYPE, REX } from '../helpers/raw-client.ts';
import { startReal } from '../helpers/real-service.ts';
import { create, operationPaths, start } from '../helpers/service.ts';

// `D7` and so on are the numbers of the details in docs/service.md.

test('D7 a 429 has an Error body and Retry-After in whole seconds, rounded up, at least 1, and adds nothing', async () => {
  const { clock, store, call } = await start({
    quota: { perMinute: 1, perDay: 100 },
    time: '2026-11-20T12:00:17.300Z',
  });
  await call('/v1/pets');
  const paths = [...operationPaths, '/v1/nothing'];
  const calls = [call('/v1/pets', create(REX)), ...paths.map((path) => call(path))];
  for (const refused of await Promise.all(calls)) {
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe('43');
    expect(await refused.text()).toMatch(/"code":"rate_limited",.* per minute is used up/);
  }
  expect(await store.size()).toBe(0);
  clock.set('2026-11-20T12:00:59.999Z');
  expect((await call('/v1/pets')).headers.get('retry-after')).toBe('1');
  clock.set('2026-11-20T12:01:00Z');
  expect((await call('/v1/pets')).status).toBe(200);
});

test('D8 windows are aligned to the UTC minute and day; the headers report the window with fewer requests left', async () => {
  const { clock, call } = await start({
    quota: { perMinute: 5, perDay: 7 },
    time: '2026-11-20T23:58:59.500Z',
  });
  const seen = async () => {
    const { status, headers } = await call('/v1/pets');
    return [
      status,
      ...['limit', 'remaining', 'reset'].map((name) => Number(headers.get(`x-ratelimit-${name}`))),
    ];
  };
  const [minute, midnight] = ['2026-11-20T23:59:00Z', '2026-11-21T00:00:00Z'].map(
    (at) => Date.parse(at) / 1_000,
  );
  for (let left = 4; left >= 0; left--) expect(await seen()).toEqual([200, 5, left, minute]);
  expect(await seen()).toEqual([429, 5, 0, minute]);
  clock.set('2026-11-20T23:59:00Z');
  expect(await seen()).toEqual([200, 7, 1, midnight]);
  expect(await seen()).toEqual([200, 7, 0, midnight]);
  // The 429 above did not count.
  expect(await seen()).toEqual([429, 7, 0, midnight]);
  clock.set('2026-11-21T00:00:00Z');
  expect((await seen()).slice(0, 3)).toEqual([200, 5, 4]);
});

describe('D17 both windows', () => {
  const ofWindows = ({ headers }: Response) => [headers.get('ratelimit-policy'), headers.get('ratelimit')];
  const none = [null, null];

  test('are reported by pages of animals, with the seconds until they end', async () => {
    const { clock, call } = await start({
      quota: { perMinute: 60, perDay: 1_000 },
      time: '2026-11-20T23:58:30.400Z',
    });
    const policy = '"minute";q=60;w=60, "day";q=1000;w=86400';
    expect(ofWindows(await call('/v1/pets'))).toEqual([policy, '"minute";r=59;t=30, "day";r=999;t=90']);
    expect(ofWindows(await call('/v1/pets?limit=3', { method: 'HEAD' }))).toEqual([
      policy,
      '"minute";r=58;t=30, "day";r=998;t=90',
    ]);
    clock.set('2026-11-20T23:59:00Z');
    expect(ofWindows(await call('/v1/pets'))).toEqual([policy, '"minute";r=59;t=60, "day";r=997;t=60']);
  });

  test('are reported by a mocked page, which is not counted, without a number that a structured header cannot have', async () => {
    const quota = { perMinute: MAX_QUOTA, perDay: MAX_QUOTA };
    const { call } = await start({ quota, time: '2026-11-20T00:00:00Z' });
    const most = '9'.repeat(15);
    expect(ofWindows(await call('/v1/pets', { headers: { Prefer: 'code=200' } }))).toEqual([
      `"minute";q=${most};w=60, "day";q=${most};w=86400`,
      `"minute";r=${most};t=60, "day";r=${most};t=86400`,
    ]);
  });

  test('are not reported by other responses', async () => {
    const others = ['/v1/pets?limit=0', ...operationPaths.filter((path) => path !== '/v1/pets')];
    const { call } = await start({ quota: { perMinute: others.length, perDay: 99 } });
    for (const path of [...others, '/v1/pets', '/healthz'])
      expect(ofWindows(await call(path)), path).toEqual(none);
  });
});

describe('D13 a missing or invalid key', () => {
  const wrong = { headers: { Authorization: 'Bearer wrong' } };

  const UNKNOWN = 'The API key is unknown';
  const NOT_SET = 'so a variable was not set';
  const NO_VALUE = 'The API key is the name of a variable instead of its value';
  const NO_SPACE = 'The API key is empty or has spaces, or there is no space after Bearer';
  const NO_HEADER = 'There is no Authorization header';
  const NO_BEARER = 'The Authorization header has no Bearer scheme';

  test.each<[headers: Record<string, string>, reason: string]>([
    [{}, NO_HEADER],
    ...['X-Api-Key', 'Api-Key', 'X-Auth-Token'].map((name): [Record<string, string>, string] => [
      { [name]: 'secret' },
      `${NO_HEADER}, and ${name} is ignored`,
    ]),
    ...Object.entries({
      '': NO_BEARER,
      'Basic c2VjcmV0OnNlY3JldA==': 'The scheme is Basic instead of Bearer',
      'Token secret': 'The scheme is Token instead of Bearer',
      secret: NO_BEARER,
      'BearerX secret': NO_BEARER,
      'Bearer "secret"': 'The API key is in quotation marks',
      Bearer: NO_SPACE,
      'Bearer secret secret': NO_SPACE,
      'bearer   secret  ': UNKNOWN,
      'Bearer pets_\xc3\xa9': UNKNOWN,
      'Bearer undefined': `The API key is the word undefined, ${NOT_SET}`,
      'Bearer null': `The API key is the word null, ${NOT_SET}`,
      'Bearer $PETS_API_KEY': NO_VALUE,
      [`Bearer \${PETS_API_KEY}`]: NO_VALUE,
      'Bearer {{apiKey}}': NO_VALUE,
      'Bearer <API_KEY>': 'The API key is a placeholder that was not replaced',
      [`Bearer pets_${'x'.repeat(42)}`]: `${UNKNOWN}; it has 47 characters, and generated ones have 48`,
      [`Bearer pets_${'x'.repeat(43)}`]: UNKNOWN,
    }).map(([Authorization, reason]): [Record<string, string>, string] => [{ Authorization }, reason]),
  ])('in the headers %j gets a 401 that says "%s"', async (headers, reason) => {
    const { listening } = await start();
    const advice = reason.startsWith('The API key') ? '' : '. Send `Authorization: Bearer <API_KEY>`';
    const response = await fetch(`${listening.origin}/v1/pets`, { headers });
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    expect(await response.json()).toEqual({ code: 'unauthorized', message: reason + advice, status: 401 });
  });

  test.each([
    ['gets the headers of 60 requests per minute and address, but no 429 if the service is local', true],
    ['is 429 from the 61st request on unless the service is local', false],
  ])('%s; valid keys from that address still work, and it is never banned', async (_about, isLocal) => {
    const { clock, call } = await start({ isLocal });
    for (let i = 1; i <= 100; i++) {
      if (i === 90) clock.advance(5_000);
      const { status, headers } = await call('/v1/pets', wrong);
      const isRefused = i > 60 && !isLocal;
      expect([status, headers.get('retry-after')]).toEqual(
        isRefused ? [429, i < 90 ? '60' : '55'] : [401, null],
      );
      expect(headers.get('x-ratelimit-limit')).toBe('60');
      expect(headers.get('x-ratelimit-remaining')).toBe(String(Math.max(0, 60 - i)));
    }
    expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
    clock.advance(55_000);
    expect((await call('/v1/pets', wrong)).status).toBe(401);
  });
});

describe('D16 API keys', () => {
  test('each key has the limits of its plan, an enterprise key its own', async () => {
    const service = await startReal();
    const agreed = { perMinute: 7, perDay: 1_000_000 };
    for (const [plan, quota] of [...Object.entries(plans), ['enterprise', agreed] as const]) {
      const request = { name: `k${quota.perMinute}`, plan: plan as keyof typeof plans };
      const key = await service.makeKey(quota === agreed ? { ...request, quota } : request);
      const { headers } = await service.call('/pets', { headers: { Authorization: `Bearer ${key}` } });
      expect(headers.get('x-ratelimit-limit')).toBe(String(quota.perMinute));
    }
  });

  test('a key that is revoked before the body of its request has arrived adds no animal', async () => {
    const service = await startReal();
    const line = connectTo(service.port());
    const length = `Content-Length: ${REX.length}\r\n`;
    const head = `POST /v1/pets HTTP/1.1\r\n${HOST}Authorization: Bearer ${service.key}\r\n`;
    await line.send(`${head}${JSON_TYPE}${length}${CLOSE}Expect: 100-continue\r\n\r\n`);
    expect((await line.receive())?.status).toBe(100);
    await service.location.manageKeys((keys) => keys.revoke('till'));
    service.clock.advance(1_000);
    expect((await line.ask(REX)).status).toBe(401);
    expect((await service.location.check()).animals).toBe(0);
  });
});
