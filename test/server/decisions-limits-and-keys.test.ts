import { describe, expect, test } from 'vitest';
import { MAX_QUOTA, plans } from '../../src/contract/plans.ts';
import { connectTo, nextData } from '../helpers/raw-client.ts';
import { CLOSE, HOST, JSON_TYPE, REX } from '../helpers/raw-requests.ts';
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
    expect(await refused.json()).toEqual({
      code: 'rate_limited',
      message: expect.any(String),
      status: 429,
    });
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

  test('are reported by a mocked page, which is not counted', async () => {
    const { call } = await start({ quota: { perMinute: 60, perDay: 1_000 }, time: '2026-11-20T23:59:30Z' });
    const response = await call('/v1/pets', { headers: { Prefer: 'code=200' } });
    expect(ofWindows(response)[1]).toBe('"minute";r=60;t=30, "day";r=1000;t=30');
  });

  test('have no number that a structured header cannot have', async () => {
    const { call } = await start({
      quota: { perMinute: MAX_QUOTA, perDay: MAX_QUOTA },
      time: '2026-11-20T00:00:00Z',
    });
    const [most, t] = ['9'.repeat(15), 86_400];
    expect(ofWindows(await call('/v1/pets'))).toEqual([
      `"minute";q=${most};w=60, "day";q=${most};w=86400`,
      `"minute";r=${most};t=60, "day";r=${most};t=${t}`,
    ]);
  });

  test('are not reported by other responses', async () => {
    const others = operationPaths.filter((path) => path !== '/v1/pets');
    // A creation, an invalid request, the other operations, and a page.
    const requests = 2 + others.length + 1;
    const { call } = await start({ quota: { perMinute: requests, perDay: requests } });
    const created = await call('/v1/pets', create(REX));
    expect([created.status, ofWindows(created)]).toEqual([201, none]);
    for (const path of ['/v1/pets?limit=0', ...others, '/healthz'])
      expect(ofWindows(await call(path)), path).toEqual(none);
    expect((await call('/v1/pets')).status).toBe(200);
    const refused = await call('/v1/pets');
    expect([refused.status, ofWindows(refused)]).toEqual([429, none]);
  });
});

describe('D13 a missing or invalid key', () => {
  const wrong = { headers: { Authorization: 'Bearer wrong' } };

  test.each([...operationPaths, '/v1/nothing'])(
    'is the same 401 at %s, except for the message, which says what is wrong',
    async (path) => {
      const { listening } = await start();
      const others: object[] = [];
      for (const [authorization, reason] of [
        [undefined, 'There is no Authorization header'],
        ['', 'There is no Authorization header'],
        ['Basic c2VjcmV0OnNlY3JldA==', 'The scheme is Basic instead of Bearer'],
        ['Token secret', 'The scheme is Token instead of Bearer'],
        ['secret', 'The Authorization header has no Bearer scheme'],
        ['BearerX secret', 'The Authorization header has no Bearer scheme'],
        ['Bearer "secret"', 'The API key is in quotation marks'],
        ['Bearer', 'The API key is empty or has spaces, or there is no space after Bearer'],
        ['Bearer secret secret', 'The API key is empty or has spaces, or there is no space after Bearer'],
        ['bearer   secret  ', 'The API key is unknown'],
        ['Bearer pets_\xc3\xa9', 'The API key is unknown'],
        ['Bearer undefined', 'The API key is the word undefined, so a variable was not set'],
        ['Bearer null', 'The API key is the word null, so a variable was not set'],
        ['Bearer $PETS_API_KEY', 'The API key is the name of a variable instead of its value'],
        [`Bearer \${PETS_API_KEY}`, 'The API key is the name of a variable instead of its value'],
        ['Bearer {{apiKey}}', 'The API key is the name of a variable instead of its value'],
        ['Bearer <API_KEY>', 'The API key is a placeholder that was not replaced'],
        [
          `Bearer pets_${'x'.repeat(42)}`,
          'The API key is unknown; it has 47 characters, and generated ones have 48',
        ],
        [`Bearer pets_${'x'.repeat(43)}`, 'The API key is unknown'],
      ] as const) {
        const headers = {
          'X-Request-Id': 'same',
          ...(authorization !== undefined && { Authorization: authorization }),
        };
        const response = await fetch(listening.origin + path, { headers });
        const { message, ...body } = (await response.json()) as { message: string };
        const advice = reason.startsWith('The API key') ? '' : '. Send `Authorization: Bearer <API_KEY>`';
        expect(message).toBe(reason + advice);
        const {
          date,
          'content-length': _,
          'x-ratelimit-remaining': __,
          ...rest
        } = Object.fromEntries(response.headers);
        others.push({ status: response.status, headers: rest, body });
      }
      expect(others[0]).toMatchObject({ status: 401, headers: { 'www-authenticate': 'Bearer' } });
      for (const other of others) expect(other).toEqual(others[0]);
    },
  );

  test.each(['X-Api-Key', 'Api-Key', 'X-Auth-Token'])('in %s is named, but not repeated', async (name) => {
    const { call } = await start();
    const response = await call('/v1/pets', { headers: { Authorization: '', [name]: 'secret' } });
    expect(await response.json()).toMatchObject({
      status: 401,
      message: `There is no Authorization header, and ${name} is ignored. Send \`Authorization: Bearer <API_KEY>\``,
    });
  });

  test('gets the headers of 60 requests per minute and address, which reject nothing and do not affect valid keys', async () => {
    const { call } = await start();
    for (let i = 1; i <= 70; i++) {
      const { status, headers } = await call('/v1/pets', wrong);
      expect(status).toBe(401);
      expect(headers.get('x-ratelimit-limit')).toBe('60');
      expect(headers.get('x-ratelimit-remaining')).toBe(String(Math.max(0, 60 - i)));
    }
    expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });

  test('is 429 from the 61st request on unless the service is local; valid keys from that address still work', async () => {
    const { clock, call } = await start({ isLocal: false });
    for (let i = 1; i <= 60; i++) expect((await call('/v1/pets', wrong)).status).toBe(401);
    const refused = await call('/v1/pets', wrong);
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe('60');
    expect(await refused.json()).toMatchObject({ code: 'rate_limited' });
    for (let i = 0; i < 30; i++) await call('/v1/pets', wrong);
    clock.advance(5_000);
    for (let i = 0; i < 30; i++) await call('/v1/pets', wrong);
    expect((await call('/v1/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
    clock.advance(55_000);
    // Addresses are never banned, because many people may share one.
    expect((await call('/v1/pets', wrong)).status).toBe(401);
  });
});

describe('D16 API keys', () => {
  test('each key has the limits of its plan, an enterprise key its own', async () => {
    const service = await startReal();
    const limitOf = async (key: string) =>
      (await service.call('/pets', { headers: { Authorization: `Bearer ${key}` } })).headers.get(
        'x-ratelimit-limit',
      );
    for (const [plan, { perMinute }] of Object.entries(plans)) {
      const key = await service.makeKey({ name: `of-${plan}`, plan: plan as keyof typeof plans });
      expect(await limitOf(key)).toBe(String(perMinute));
    }
    const agreed = await service.makeKey({
      name: 'agreed',
      plan: 'enterprise',
      quota: { perMinute: 7, perDay: 1_000_000 },
    });
    expect(await limitOf(agreed)).toBe('7');
  });

  test('a key that is revoked before the body of its request has arrived adds no animal', async () => {
    const service = await startReal();
    const socket = connectTo(service.port());
    const length = `Content-Length: ${REX.length}\r\n`;
    const head = `POST /v1/pets HTTP/1.1\r\n${HOST}Authorization: Bearer ${service.key}\r\n`;
    socket.write(`${head}${JSON_TYPE}${length}${CLOSE}Expect: 100-continue\r\n\r\n`);
    expect(String(await nextData(socket))).toContain('100 Continue');
    await service.location.manageKeys((keys) => keys.revoke('till'));
    service.clock.advance(1_000);
    socket.write(REX);
    expect(String(await nextData(socket))).toMatch(/^HTTP\/1\.1 401 /);
    expect((await service.location.check()).animals).toBe(0);
  });
});
