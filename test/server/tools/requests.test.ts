import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { MAX_FOREIGN_REQUESTS, MAX_RECORDED_REQUESTS } from '../../../src/contract/recorded-text.ts';
import { ignoredPreferences } from '../../../src/server/mocks.ts';
import { foreignOrigin } from '../../../src/server/request/checks.ts';
import {
  createRecord,
  createRecorder,
  createRequestDescriber,
  MAX_RECORDED_BODY,
} from '../../../src/server/tools/recorder.ts';
import { createRequestsHandler } from '../../../src/server/tools/tools.ts';
import { gate } from '../../helpers/gate.ts';
import { connectTo, sendRaw } from '../../helpers/raw-client.ts';
import { type Requests, startWithTools } from '../../helpers/real-service.ts';
import { create } from '../../helpers/service.ts';

const REX = '{"name":"Rex","categoryId":9223372036854775807}';

test('GET /requests shows a request and its response, with all digits of its numbers', async () => {
  const { call, requests } = await startWithTools({ time: '2026-11-20T12:00:00Z' });
  await call('/pets?a=%20b', create(REX, { 'X-Request-Id': 'first', 'Idempotency-Key': '"k"' }));
  const { requests: shown } = await requests();
  expect(shown).toEqual([
    {
      ...{ number: 1, id: 'first', time: '2026-11-20T12:00:00.000Z', milliseconds: 0, client: '127.0.0.1' },
      ...{ method: 'POST', url: '/v1/pets?a=%20b', operation: 'createPet', keyName: 'till', status: 201 },
      outcome: 'counted',
      because: 'counted: 59 of 60 requests left in this minute',
      request: {
        headers: expect.objectContaining({
          authorization: '[redacted]',
          'content-type': 'application/json',
          'idempotency-key': '"k"',
        }),
        body: REX,
        bodyBytes: REX.length,
      },
      response: {
        headers: expect.objectContaining({
          'content-type': 'application/json',
          'x-ratelimit-remaining': '59',
          'x-request-id': 'first',
        }),
        body: '{"id":1,"name":"Rex","categoryId":9223372036854775807,"status":"available"}',
        bodyBytes: 75,
      },
    },
  ]);
});

test('GET /requests shows what happened to each request, and why it got its response', async () => {
  const { call, requests, clock, use } = await startWithTools({
    time: '2026-11-20T12:00:10Z',
    bans: { after: 1, milliseconds: 5_000 },
    faults: {
      seed: 1,
      rules: [
        { answer: 503, times: 1 },
        { latency: 90, times: 1 },
      ],
    },
  });
  const expectNewest = async (what: string, because: string | RegExp) => {
    const [shown] = (await requests('?limit=1')).requests;
    const { status, code, outcome, until, rule, delay } = shown ?? {};
    const seen = [status, code, outcome, until, rule && `rule ${rule}`, delay && `${delay} ms`];
    expect(seen.filter((each) => each !== undefined).join(' ')).toBe(what);
    if (typeof because === 'string') expect(shown?.because).toBe(because);
    else expect(shown?.because).toMatch(because);
    return shown;
  };
  const key = { 'Idempotency-Key': '"a"' };
  for (const [path, init, what, because] of [
    ['/pets', {}, '503 injected_fault injected_fault rule 1', 'fault rule 1'],
    ['/pets', {}, '200 counted rule 2 90 ms', 'counted: 59 of 60 requests left in this minute'],
    [
      '/pets',
      create('{"name":7,"categoryId":true,"status":"gone"}'),
      '400 invalid_request counted',
      /^name must .*; categoryId must be an integer.*; status must be one of/,
    ],
    [
      '/pets',
      { headers: { Prefer: 'code=429, retry-after=7' } },
      '429 rate_limited mocked',
      'the client asked for this response with Prefer: code=429, retry-after=7',
    ],
    ['/pets', { headers: { Authorization: '' } }, '401 unauthorized not_counted', /has no Bearer scheme/],
    ['/pets', create(REX, key), '201 counted', 'counted: 57 of 60 requests left in this minute'],
    ['/pets', create(REX, key), '201 replayed', /^repeats the response of an earlier request, because/],
    ['/pets', { method: 'OPTIONS' }, '204 not_counted', /./],
    ['/nothing', {}, '404 not_found counted', /[^.]$/],
    ['/pets?x=1%0a&x=2', {}, '400 invalid_request counted', 'The query parameter x is given more than once'],
  ] as const) {
    await call(path, init);
    await expectNewest(what, because);
  }
  await use('/openapi.json');
  await expectNewest('200 not_counted', 'this request needs no key, and is not counted');
  for (let i = 0; i < 60; i++) await call('/pets');
  await call('/pets', create(REX));
  const refused = await expectNewest(
    '429 rate_limited rate_limited 2026-11-20T12:01:00.000Z',
    'the limit of 60 requests per minute is used up',
  );
  // The service never read the body of the refused creation, but the client sent it.
  expect(refused?.request).toMatchObject({ body: REX, bodyBytes: REX.length });
  clock.advance(1_000);
  await call('/pets');
  await expectNewest(
    '429 key_banned banned 2026-11-20T12:00:16.000Z',
    'the key is banned, because requests continued after a 429',
  );
});

test('GET /requests says if a limit per day, missing keys or the fail rate decided', async () => {
  const { call, requests, makeKey } = await startWithTools({
    publicUrl: 'http://shop.example',
  });
  const because = async (times: number, key: string) => {
    for (let i = 0; i < times; i++)
      await call('/pets', { headers: { Authorization: key && `Bearer ${key}` } });
    return (await requests('?limit=1')).requests[0]?.because;
  };
  const plan = 'enterprise';
  const daily = await makeKey({ name: 'daily', plan, quota: { perMinute: 10_000, perDay: 2 } });
  const large = await makeKey({ name: 'large', plan, quota: { perMinute: 2_000, perDay: 9_000 } });
  expect(await because(1, daily)).toBe('counted: 1 of 2 requests left in this day');
  expect(await because(2, daily)).toBe('the limit of 2 requests per day is used up');
  expect(await because(1, large)).toBe('counted: 1,999 of 2,000 requests left in this minute');
  expect(await because(61, '')).toBe('the limit of 60 requests without a valid key per minute is used up');
  const failing = await startWithTools({ faults: { seed: 1, failRate: 1 } });
  await failing.call('/pets');
  expect((await failing.requests()).requests).toMatchObject([
    { because: 'the fail rate chose this request' },
  ]);
});

test('requests for the tools and health checks are not shown; all others are, also those that are not valid HTTP', async () => {
  const { port, raw, requests, use } = await startWithTools();
  await use('/openapi.json');
  await use('/healthz');
  await use('/readyz');
  await use('/reset', { method: 'DELETE' });
  await requests();
  await sendRaw(port(), 'nonsense\r\n\r\n');
  await raw('POST', '/v1/pets', 'Transfer-Encoding: chunked\r\n', 'nonsense\r\n');
  const invalid = { status: 400, code: 'invalid_request', because: 'The request is not valid HTTP/1.1' };
  expect((await requests()).requests).toMatchObject([
    { ...invalid, method: 'POST', url: '/v1/pets' },
    { ...invalid, method: '-', url: '-', response: { bodyBytes: expect.any(Number) } },
    { method: 'GET', url: '/openapi.json', status: 200, operation: '/openapi.json' },
  ]);
});

test.each([
  ['code=429, retry-after=1', ''],
  ['retry-after=1', 'retry-after'],
  ['respond-async, Wait=10; x=y, code=503', 'respond-async, wait'],
  ['', ''],
])('of the header Prefer: %s, the preferences without effect are "%s"', (prefer, ignored) => {
  expect(ignoredPreferences(prefer)).toBe(ignored);
});

test('`since` shows only the requests after a cursor; DELETE empties the log, and a restart too', async () => {
  const { call, requests, use, restart } = await startWithTools();
  await call('/pets?limit=1');
  const before = await requests();
  expect((await requests(`?since=${before.cursor}`)).requests).toEqual([]);
  const cleared = await use('/requests', { method: 'DELETE' });
  const { log, cursor } = (await cleared.json()) as Requests;
  expect(log).not.toBe(before.log);
  expect(await requests()).toEqual({ requests: [], log, cursor });
  await call('/pets?limit=2');
  for (const since of [before.cursor, cursor])
    expect((await requests(`?since=${since}`)).requests).toMatchObject([
      { number: 2, url: '/v1/pets?limit=2' },
    ]);
  await restart();
  await call('/pets?limit=3');
  expect((await requests(`?since=${cursor}`)).requests).toMatchObject([{ url: '/v1/pets?limit=3' }]);
});

test('GET /requests shows the requests that match; `summary=true` leaves out headers and bodies', async () => {
  const { call, key, requests } = await startWithTools();
  await call('/pets?limit=0');
  await call('/pets', { ...create('{}'), headers: { Authorization: '' } });
  await call('/store/orders');
  await call('/pets?limit=1', { headers: { 'X-Mark': 'one' } });
  await call('/pets', create(REX));
  for (const path of ['/nothing', '/pets/7']) await call(path, { headers: { 'X-Request-Id': 'Mine' } });
  const { requests: all } = await requests();
  expect(all.map(({ number }) => number)).toEqual([7, 6, 5, 4, 3, 2, 1]);
  for (const [query, numbers] of Object.entries<number[]>({
    ...{ 'limit=2': [7, 6], 'number=3': [3], 'number=99': [] },
    // Everything that is shown is searched, ignoring case, but no secret and no name of a field.
    ...{ 'text="name":"rex"': [5], 'text=MUST BE AN INTEGER': [1], 'text=invalid_request': [1] },
    ...{ 'text=mine': [7, 6], 'text=x-mark': [4], 'text=X-Mark: one': [4], 'text=mine&limit=1': [7] },
    ...{ 'text=keyName': [], [`text=${key}`]: [] },
  })) {
    const matching = all.filter(({ number }) => numbers.includes(number));
    expect((await requests(`?${query}&summary=false`)).requests, query).toEqual(matching);
    const summaries = matching.map(({ request, response, notAgain, ...summary }) => summary);
    expect((await requests(`?${query}&summary=true`)).requests, query).toEqual(summaries);
  }
});

test('an invalid query is refused', async () => {
  const { use } = await startWithTools();
  for (const query of [
    ...['summary=', 'summary=yes', 'text=1&text=2', 'limit=0', 'limit=1001', 'number=0', 'number=x'],
    ...['since=x', 'since=', 'since=00000000-', 'text=%zz'],
  ]) {
    const response = await use(`/requests?${query}`);
    expect([response.status, await response.json()], query).toMatchObject([400, { code: 'invalid_request' }]);
  }
});

test('requests that are recorded while a response is made come after its cursor', async () => {
  const recorder = createRecorder();
  const request = { rawHeaders: [] as string[] } as IncomingMessage;
  const add = (id: string) => recorder.add(createRecord(id, '', request, 0), undefined);
  const show = createRequestsHandler(recorder, createRequestDescriber([]));
  const read = async (query: string) => {
    const response = await show({ url: `/requests${query}` } as IncomingMessage);
    const { requests, cursor } = JSON.parse(String(response?.body)) as Requests;
    return { ids: requests.map(({ id }) => id), cursor };
  };
  add('first');
  const reading = read('');
  add('second');
  const { ids, cursor } = await reading;
  expect(ids).toEqual(['first']);
  expect((await read(`?since=${cursor}`)).ids).toEqual(['second']);
});

test.each([
  [`the last ${MAX_RECORDED_REQUESTS} requests are kept`, '/', MAX_RECORDED_REQUESTS],
  ['fewer requests are kept if they need more than 24 MiB', `/${'x'.repeat(2 ** 17 - 1)}`, 192],
])('%s', (_about, url, kept) => {
  const recorder = createRecorder();
  const request = { method: 'GET', url, rawHeaders: [] as string[] } as unknown as IncomingMessage;
  for (let i = 1; i <= MAX_RECORDED_REQUESTS + 500; i++)
    recorder.add(createRecord(`${i}`, '', request, 0), undefined);
  const ids = recorder.after(0).map(({ id }) => id);
  expect(ids).toEqual(Array.from({ length: kept }, (_, i) => `${MAX_RECORDED_REQUESTS + 500 - i}`));
});

test(`bodies are shown up to about ${MAX_RECORDED_BODY} bytes, and their sizes in full`, async () => {
  const { call, requests } = await startWithTools();
  const name = 'é'.repeat(20_000);
  expect((await call('/pets', create(JSON.stringify({ name, categoryId: 1 })))).status).toBe(201);
  expect((await call('/pets')).status).toBe(200);
  await call('/pets', { method: 'POST', body: new Uint8Array([0xff]) });
  const [whole, ...shown] = (await requests()).requests;
  // Its text is longer than the body was.
  expect(whole?.request).not.toHaveProperty('cutOff');
  for (const message of [shown[1]?.request, shown[1]?.response, shown[0]?.response]) {
    expect(message?.bodyBytes).toBeGreaterThan(40_000);
    expect(message?.cutOff).toBe(true);
    expect(message?.body).toMatch(/^[{[].*éééé$/);
    const bytes = Buffer.byteLength(message?.body ?? '');
    expect(bytes).toBeGreaterThan(MAX_RECORDED_BODY - 1_000);
    expect(bytes).toBeLessThanOrEqual(MAX_RECORDED_BODY);
  }
});

test('a client that closes the connection before the response gave up', async () => {
  const [latency, delayed] = [gate(), gate()];
  const { clock, key, port, requests } = await startWithTools({
    time: '2026-11-20T12:00:00Z',
    faults: { seed: 1, latency: { min: 500, max: 500 } },
    sleep: async (milliseconds) => {
      if (milliseconds !== 500) return;
      delayed.open();
      await latency.opened;
    },
  });
  onTestFinished(() => latency.open());
  const line = connectTo(port());
  await line.send(`GET /v1/pets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  await delayed.opened;
  clock.advance(2_100);
  line.socket.resetAndDestroy();
  await once(line.socket, 'close');
  await requests();
  latency.open();
  await expect.poll(async () => (await requests()).requests).toHaveLength(1);
  const [shown] = (await requests()).requests;
  expect(shown).toMatchObject({
    ...{ number: 1, time: '2026-11-20T12:00:00.000Z', milliseconds: 2_100, keyName: 'till', delay: 500 },
    because: 'the client closed the connection before the response',
  });
  expect(shown).not.toHaveProperty('status');
  expect(shown).not.toHaveProperty('response');
});

const OTHER = 'http://evil.test';

test.each<[headers: Record<string, string>, origin: string | undefined]>([
  [{}, undefined],
  [{ 'sec-fetch-site': 'none' }, undefined],
  [{ 'sec-fetch-site': 'same-origin', origin: 'http://other-name.test' }, undefined],
  [{ 'sec-fetch-site': 'cross-site', origin: 'http://shop.test' }, undefined],
  // An old browser, with a page of the server and of another website.
  [{ origin: 'http://localhost:7387' }, undefined],
  [{ origin: OTHER }, OTHER],
  [{ 'sec-fetch-site': 'cross-site', origin: OTHER }, OTHER],
  // Another port of this machine, an image, a sandbox, and a long origin.
  [{ 'sec-fetch-site': 'same-site', origin: 'http://localhost:5173' }, 'http://localhost:5173'],
  [{ 'sec-fetch-site': 'cross-site' }, 'unknown'],
  [{ origin: 'null' }, 'null'],
  [{ origin: 'x'.repeat(300) }, 'x'.repeat(200)],
])(
  'with --cors http://shop.test, the origin of a request with %j that may not use the service is %s',
  (headers, origin) => {
    const request = { method: 'GET', headers: { host: 'localhost:7387', ...headers } } as never;
    expect(foreignOrigin(request, 200, { cors: ['http://shop.test'] })).toBe(origin);
    expect(foreignOrigin(request, 200, { cors: ['*'] })).toBeUndefined();
  },
);

test('requests of pages that may not use the service name the origin, and the option that allows it', async () => {
  const { call, requests, key } = await startWithTools();
  for (const [origin, foreignOrigin, because] of [
    [OTHER, OTHER, `${OTHER} read this response; to allow it, start pets serve with --cors ${OTHER}`],
    ['tauri://localhost', 'tauri://localhost', 'start pets serve with --cors tauri://localhost'],
    ['http://a;$(reboot)', 'http://a;$(reboot)', 'counted'],
    [`http://${key}.test`, 'http://[redacted].test', '[redacted]'],
  ] as const) {
    await call('/pets', { headers: { Origin: origin } });
    expect((await requests('?limit=1')).requests).toMatchObject([
      { foreignOrigin, because: expect.stringContaining(because) },
    ]);
  }
});

test.each([
  ['of another website', 'GET /v1/pets HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.test\r\n'],
  ['with a Host that is not allowed', 'GET /v1/pets HTTP/1.1\r\nHost: evil.test\r\n'],
  ['that are not valid HTTP', 'nonsense\r\n'],
])(
  `requests %s cannot fill the log: the last ${MAX_FOREIGN_REQUESTS} are kept, and all others`,
  async (_, bytes) => {
    const { port, requests, call } = await startWithTools();
    await call('/pets');
    for (let i = 0; i < MAX_FOREIGN_REQUESTS + 3; i++)
      await sendRaw(port(), `${bytes}Connection: close\r\n\r\n`);
    await call('/pets');
    const numbers = (await requests()).requests.map(({ number }) => number);
    const foreign = Array.from({ length: MAX_FOREIGN_REQUESTS }, (_each, i) => MAX_FOREIGN_REQUESTS + 4 - i);
    expect(numbers).toEqual([MAX_FOREIGN_REQUESTS + 5, ...foreign, 1]);
  },
);
