import { describe, expect, test } from 'vitest';
import {
  closed,
  connectTo,
  expectError,
  nextData,
  parseResponses,
  sendRaw,
  sendToService,
} from '../helpers/raw-client.ts';
import {
  AUTH,
  atLoopback,
  chunked,
  get,
  HOST,
  JSON_TYPE,
  open,
  post,
  REX,
  rich,
} from '../helpers/raw-requests.ts';
import { start } from '../helpers/service.ts';

// Tests of several requests on one connection, and of bodies that the service refuses or asks for (100 Continue).

const add = (body = REX) =>
  open('POST', '/v1/pets', `${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}`);
const CONNECT = `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`;

const tooLong = post('', `${JSON_TYPE}X: `)
  .toString()
  .replace('Content-Length: 0', 'Content-Length: 10000000');
test.each([
  ['by its length', tooLong],
  ['by chunks', chunked(`4000\r\n${'x'.repeat(0x4000)}\r\n`.repeat(5))],
])('a body that is too large %s is 413 before all of it has arrived', async (_about, bytes) => {
  const { listening, store, accessLog } = await start(atLoopback);
  const socket = connectTo(listening.port);
  socket.write(bytes);
  const [response] = parseResponses(await nextData(socket));
  expect(response?.status).toBe(413);
  if (response) expectError(response);
  expect(await store.size()).toBe(0);
  expect(accessLog.map(({ status }) => status)).toEqual([413]);
});

describe('Expect: 100-continue', () => {
  const expecting = (headers: string, length = 29) =>
    open('POST', '/v1/pets', `${headers}Content-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`);

  test('asks for the body when it is needed, and the animal is added', async () => {
    const { listening, store } = await start(atLoopback);
    const socket = connectTo(listening.port);
    socket.write(expecting(JSON_TYPE));
    expect(String(await nextData(socket))).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    socket.write(REX);
    const [response] = parseResponses(await nextData(socket));
    expect(response?.status).toBe(201);
    expect(response?.headers['connection']).not.toBe('close');
    expect(await store.size()).toBe(1);
  });

  test.each([
    ['the wrong type', expecting('Content-Type: text/plain\r\n'), [415]],
    ['a length over the limit', expecting(JSON_TYPE, 70_000), [413]],
    ['no key', expecting(JSON_TYPE).replace(AUTH, ''), [401]],
    [
      'the wrong type, its body, and a creation',
      expecting('Content-Type: text/plain\r\n') + REX + add(),
      [415],
    ],
    ['Connection: close, and its body', expecting(`${JSON_TYPE}Connection: close\r\n`) + REX, [100, 201]],
  ])('with %s, the connection closes after the response', async (_about, bytes, expected) => {
    const { statuses, responses } = await sendToService(bytes);
    expect(statuses).toEqual(expected);
    expect(responses.at(-1)?.headers['connection']).toBe('close');
  });
});

describe('requests on one connection', () => {
  test('get responses in order if pipelined, and a read sees the creation before it', async () => {
    const rounds = Array.from({ length: 50 }, (_, i) => add() + open('GET', `/v1/pets/${i + 1}`));
    const { responses } = await sendToService(rounds.join('') + get('/v1/pets'), rich);
    expect(responses).toHaveLength(101);
    for (let i = 0; i < 50; i++) {
      expect(responses[2 * i]?.status).toBe(201);
      expect(responses[2 * i + 1]).toMatchObject({ status: 200, body: responses[2 * i]?.body });
    }
  });

  test('are all counted, even if thousands are pipelined', async () => {
    const bytes = open('GET', '/v1/pets').repeat(1_999) + get('/v1/pets');
    const { statuses, accessLog } = await sendToService(bytes, {
      quota: { perMinute: 1_500, perDay: 10_000 },
    });
    expect(statuses).toHaveLength(2_000);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1_500);
    expect(statuses.slice(1_500).every((status) => status === 429)).toBe(true);
    expect(accessLog).toHaveLength(2_000);
  });

  test('cannot be smuggled in as the body of another request', async () => {
    const inner = get('/v1/store/orders');
    const outer = open('GET', '/v1/pets', `Content-Length: ${inner.length}\r\n\r\n${inner}`);
    const { accessLog } = await sendToService(outer + get('/v1/pets?limit=1'));
    expect(accessLog.map(({ url }) => url)).toEqual(['/v1/pets', '/v1/pets?limit=1']);
  });

  test.each([
    ['get responses', add() + open('GET', '/v1/pets'), [201, 200]],
    ['add nothing in the middle of a body', add().slice(0, -5), [400]],
  ])('%s if the client has closed its sending side', async (_about, bytes, expected) => {
    expect((await sendToService(bytes, { halfClose: true })).statuses).toEqual(expected);
  });

  test.each([
    ['CONNECT', CONNECT, 405],
    ['bytes that are not HTTP', '\0\r\n\r\n', 400],
    ['an unknown method', `FOO /v1/pets HTTP/1.1\r\n${HOST}\r\n`, 405],
    ['headers of 9 KiB', open('GET', '/v1/pets', `X: ${'x'.repeat(9_216)}\r\n\r\n`), 431],
    ['two lengths', open('POST', '/v1/pets', 'Content-Length: 1\r\nContent-Length: 2\r\n\r\n'), 400],
  ])(
    'get their responses before the error of %s, after which nothing is executed',
    async (_about, bytes, status) => {
      const good = add() + open('GET', '/v1/pets').repeat(3) + add();
      const { statuses, responses, accessLog } = await sendToService(good + bytes + add(), rich);
      expect(statuses).toEqual([201, 200, 200, 200, 201, status]);
      // The last line is the one of the error.
      expect(accessLog.map(({ method }) => method)).toEqual(['POST', 'GET', 'GET', 'GET', 'POST', '-']);
      expect(Date.parse(responses.at(-1)?.headers['date'] ?? '')).not.toBeNaN();
    },
  );

  test.each([true, false])(
    'get the error after an unread body too (sending side closed: %s)',
    async (halfClose) => {
      const unread = open('GET', '/v1/pets', `Content-Length: 65536\r\n\r\n${' '.repeat(65_536)}`);
      for (let i = 0; i < 10; i++) {
        const { statuses } = await sendToService(`${add()}${unread}g`, { ...rich, halfClose });
        expect(statuses).toEqual([201, 200, 400]);
      }
    },
  );
});

describe('nothing after the last request of a connection is executed', () => {
  test.each([
    ['Connection: close', open('GET', '/v1/pets', 'Connection: close\r\n\r\n')],
    ['an ignored Upgrade', open('GET', '/v1/pets', 'Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n')],
    ['HTTP/1.0', `GET /v1/pets HTTP/1.0\r\n${HOST}${AUTH}\r\n`],
    [
      'chunks of HTTP/1.0',
      `GET /v1/pets HTTP/1.0\r\n${HOST}${AUTH}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
  ])('%s', async (_about, bytes) => {
    for (const more of [add(), 'nonsense\r\n\r\n', CONNECT]) {
      const { statuses, responses } = await sendToService(bytes + more);
      expect(statuses).toEqual([200]);
      expect(responses[0]?.headers['connection']).toBe('close');
    }
  });

  test('the body that follows an ignored Upgrade later is not a request', async () => {
    const { listening, store, accessLog } = await start(atLoopback);
    const socket = connectTo(listening.port).resume();
    const end = closed(socket);
    const smuggled = add();
    socket.write(
      open('GET', '/healthz', 'Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n') +
        open('POST', '/v1/nope', `Content-Length: ${smuggled.length}\r\n\r\n`),
    );
    await expect.poll(() => accessLog.length).toBe(1);
    socket.write(smuggled);
    await end;
    expect(await store.size()).toBe(0);
    expect(accessLog.map(({ url }) => url)).toEqual(['/healthz']);
  });
});

test.each([
  ['its requests are dropped', add().repeat(50)],
  ['a CONNECT does not end the service', CONNECT],
])('if a client disconnects, %s', async (_about, bytes) => {
  const { listening, store } = await start(rich);
  for (let i = 0; i < 20; i++) {
    const socket = connectTo(listening.port);
    const end = closed(socket);
    socket.write(bytes, () => socket.resetAndDestroy());
    await end;
  }
  expect((await sendRaw(listening.port, get('/v1/pets')))[0]?.status).toBe(200);
  expect(await store.size()).toBeLessThanOrEqual(1_000);
});
