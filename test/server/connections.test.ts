import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, onTestFinished, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import { CONNECTION_LIMITS, listen } from '../../src/server/connection/listen.ts';
import { expectError, parseResponses, sendRaw, sendToService } from '../helpers/raw-client.ts';
import { AUTH, atLoopback, chunked, get, HOST, JSON_TYPE, post, REX } from '../helpers/raw-requests.ts';
import { start } from '../helpers/service.ts';
import { memoryStore } from '../helpers/store-fixtures.ts';

// Connections of hostile clients, and several requests on one connection.

const open = (method: string, target: string, rest = '\r\n') =>
  `${method} ${target} HTTP/1.1\r\n${HOST}${AUTH}${rest}`;
const add = (body = REX) =>
  open('POST', '/v1/pets', `${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}`);
const CONNECT = `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`;
const rich = { ...atLoopback, quota: plans.enterprise };
/** Shorter than the real limits, for a fast test. */
const shortLimits = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 };

/** A connection that is closed after the test. */
function connectTo(port: number): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}
const nextData = (socket: Socket) => new Promise<Buffer>((resolve) => socket.once('data', resolve));
const closed = (socket: Socket) => new Promise((resolve) => socket.once('close', resolve));

describe('the body', () => {
  const tooLong = post('', `${JSON_TYPE}X: `)
    .toString()
    .replace('Content-Length: 0', 'Content-Length: 10000000');
  test.each([
    ['by its length', tooLong],
    ['by chunks', chunked(`4000\r\n${'x'.repeat(0x4000)}\r\n`.repeat(5))],
  ])('that is too large %s is 413 before all of it has arrived', async (_about, bytes) => {
    const { listening, store, accessLog } = await start(atLoopback);
    const socket = connectTo(listening.port);
    socket.write(bytes);
    const [response] = parseResponses(await nextData(socket));
    expect(response?.status).toBe(413);
    if (response) expectError(response);
    expect(await store.size()).toBe(0);
    expect(accessLog.map(({ status }) => status)).toEqual([413]);
  });

  test('is not read without a valid key', async () => {
    const bytes = `POST /v1/pets HTTP/1.1\r\n${HOST}${JSON_TYPE}Content-Length: 29\r\nExpect: 100-continue\r\n\r\n`;
    const { statuses, accessLog } = await sendToService(bytes);
    expect(statuses).toEqual([401]);
    expect(accessLog).toHaveLength(1);
  });
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
    const bytes = open('GET', '/v1/pets').repeat(4_999) + get('/v1/pets');
    const { statuses, accessLog } = await sendToService(bytes, {
      quota: { perMinute: 3_000, perDay: 10_000 },
    });
    expect(statuses).toHaveLength(5_000);
    expect(statuses.filter((status) => status === 200)).toHaveLength(3_000);
    expect(statuses.slice(3_000).every((status) => status === 429)).toBe(true);
    expect(accessLog).toHaveLength(5_000);
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
      expect(accessLog).toHaveLength(5);
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

describe('slow clients', () => {
  test('the default limits are those of docs/service.md 8.5', () => {
    expect(CONNECTION_LIMITS).toEqual({
      headersTimeout: 5_000,
      requestTimeout: 15_000,
      idleTimeout: 30_000,
      keepAliveTimeout: 5_000,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: 8_192,
      maxConnections: 256,
    });
  });

  test.each([
    ['nothing', ''],
    ['half a request line', 'GET /v1/pe'],
    ['headers that do not end', `GET /v1/pets HTTP/1.1\r\n${HOST}${AUTH}`],
    ['half a body', post(REX).subarray(0, -5)],
  ])('a client that sends %s gets 408 and is disconnected', async (_about, bytes) => {
    expect((await sendToService(bytes, { limits: shortLimits })).statuses).toEqual([408]);
  });

  test('the 408 of an unfinished body has the rate limit of its key', async () => {
    const quota = { perMinute: 777, perDay: 10_000 };
    const { responses } = await sendToService(add().slice(0, -5), { limits: shortLimits, quota });
    expect(responses[0]).toMatchObject({
      status: 408,
      headers: { 'x-ratelimit-limit': '777', 'x-ratelimit-remaining': '776' },
    });
  });

  test('a client that sends headers slowly gets 408', async () => {
    const { listening } = await start({ ...atLoopback, limits: shortLimits });
    const socket = connectTo(listening.port);
    socket.write(`GET /v1/pets HTTP/1.1\r\n${HOST}`);
    const drip = setInterval(() => socket.write('X: x\r\n'), 10);
    const [response] = parseResponses(await nextData(socket));
    clearInterval(drip);
    expect(response?.status).toBe(408);
  });

  test('the idle timeout does not apply to a delayed response, but to the connection after it', async () => {
    const { call, listening } = await start({
      ...atLoopback,
      limits: { idleTimeout: 100, keepAliveTimeout: 60_000 },
      faults: { latency: { min: 300, max: 300 }, seed: 1 },
      sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    });
    expect((await call('/v1/pets')).status).toBe(200);
    // An incomplete request: the idle timeout closes the connection.
    expect(await sendRaw(listening.port, open('GET', '/v1/pets', 'X: unread\r\n'))).toHaveLength(0);
  });

  test('200 of them do not block other requests', async () => {
    const { listening, call } = await start(atLoopback);
    const half = 'GET /v1/pets HTTP/1.1\r\nHo';
    const sockets = Array.from({ length: 200 }, () => connectTo(listening.port));
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.write(half, resolve))));
    expect((await call('/v1/pets')).status).toBe(200);
  });

  test('the number of connections is limited', async () => {
    const { listening, call } = await start({ ...atLoopback, limits: { maxConnections: 3 } });
    const sockets = Array.from({ length: 10 }, () => connectTo(listening.port));
    const allClosed = sockets.map(closed);
    await Promise.race(allClosed);
    for (const socket of sockets) socket.destroy();
    await Promise.all(allClosed);
    await expect.poll(async () => (await call('/v1/pets').catch(() => undefined))?.status).toBe(200);
  });
});

describe('a client that sends requests without reading responses', () => {
  test('gets no more responses than it reads, however many requests it has sent', async () => {
    const store = await memoryStore();
    let lists = 0;
    const page = Buffer.from(`["${'x'.repeat(1_000_000)}"]`);
    store.list = async () => {
      lists++;
      return { pets: page };
    };
    const { listening } = await start({ ...rich, store });
    const socket = connectTo(listening.port).pause();
    await new Promise((resolve) => socket.write(open('GET', '/v1/pets').repeat(500), resolve));
    // Other clients still get responses.
    for (let i = 0; i < 20; i++)
      expect((await sendRaw(listening.port, get('/healthz')))[0]?.status).toBe(200);
    expect(lists).toBeLessThan(30);
    socket.resume();
    await expect.poll(() => lists, { timeout: 60_000 }).toBe(500);
  }, 90_000);

  test('does not block others: requests of another connection are handled in between', async () => {
    const { listening, accessLog } = await start(atLoopback);
    const flood = `GET /v1/pets HTTP/1.1\r\n${HOST}\r\n`.repeat(3_000);
    const sockets = Array.from({ length: 4 }, () => connectTo(listening.port));
    for (const socket of sockets) socket.resume().write(flood);
    await expect.poll(() => accessLog.length).toBeGreaterThan(100);
    const before = accessLog.length;
    expect((await sendRaw(listening.port, get('/v1/pets?limit=7')))[0]?.status).toBe(200);
    const at = accessLog.findIndex(({ url }) => url === '/v1/pets?limit=7');
    // The response must not wait until all 12,000 requests of the other connections are handled.
    expect(at - before).toBeLessThan(4_000);
    expect(accessLog.length).toBeLessThan(11_000);
  });
});

describe('a service that is stopped', () => {
  test('stops although a CONNECT waits for responses that the client does not read', async () => {
    const store = await memoryStore();
    store.list = async () => ({ pets: Buffer.from(`["${'x'.repeat(8_000_000)}"]`) });
    const { listening, accessLog } = await start({ ...rich, store });
    const socket = connectTo(listening.port).pause();
    socket.write(`${open('GET', '/v1/pets').repeat(3)}CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`);
    await expect.poll(() => accessLog.length).toBeGreaterThan(0);
    await listening.stop(100);
  });

  test('handles at most one more request of each connection that keeps sending', async () => {
    const { listening, accessLog } = await start(atLoopback);
    const flood = `GET /v1/pets HTTP/1.1\r\n${HOST}\r\n`.repeat(2_000);
    for (let i = 0; i < 4; i++) {
      const socket = connectTo(listening.port).resume();
      let left = 200;
      const pour = () => void (socket.destroyed || left-- === 0 || socket.write(flood, pour));
      pour();
    }
    await expect.poll(() => accessLog.length, { timeout: 60_000 }).toBeGreaterThan(500);
    const before = accessLog.length;
    // This must resolve long before the grace period ends, although the clients continue to send.
    await listening.stop(60_000);
    // Only requests that the service had already received are handled, not all 400,000 of each connection.
    expect(accessLog.length - before).toBeLessThan(40_000);
  });

  test('is garbage-collected', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const runOnce = async () => {
      const app = {
        handle: async () => {},
        errorResponse: async () => ({ status: 400, headers: {}, body: '' }),
      };
      const listening = await listen(app, { host: '127.0.0.1', port: 0 });
      await listening.stop(0);
      return new WeakRef(app);
    };
    const stopped: WeakRef<object>[] = [];
    for (let i = 0; i < 10; i++) stopped.push(await runOnce());
    const inMemory = () => {
      collect();
      return stopped.filter((each) => each.deref() !== undefined).length;
    };
    // V8 may still reference the most recent ones.
    await expect.poll(inMemory).toBeLessThanOrEqual(2);
  });
});

test('OPTIONS counts invalid keys too, so that it cannot be used to guess keys', async () => {
  const { call, listening } = await start({ ...atLoopback, limitFailedKeys: true });
  const options = (authorization: string) =>
    call('/v1/pets', { method: 'OPTIONS', headers: { Authorization: authorization } });
  for (let i = 0; i < 60; i++) expect((await options(`Bearer guess-${i}`)).status).toBe(401);
  expect((await options('Bearer guess')).status).toBe(429);
  expect((await options('')).status).toBe(204);
  expect((await call('/v1/pets', { method: 'OPTIONS' })).headers.get('idempotency-supported')).toBe('true');
  const twice = `OPTIONS /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${AUTH}Connection: close\r\n\r\n`;
  expect((await sendRaw(listening.port, twice))[0]?.status).toBe(429);
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
