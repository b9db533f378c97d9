import { connect } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, onTestFinished, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import { listen } from '../../src/server/connection/listen.ts';
import { expectError, sendRaw } from '../helpers/raw-client.ts';
import { AUTH, atLoopback, get, HOST, JSON_TYPE, REX } from '../helpers/raw-requests.ts';
import { start } from '../helpers/service.ts';
import { memoryStore } from '../helpers/store-fixtures.ts';

// Regression tests of attacks that once succeeded.

const open = (method: string, target: string, rest = '\r\n') =>
  `${method} ${target} HTTP/1.1\r\n${HOST}${AUTH}${rest}`;
const add = (body = REX) =>
  open('POST', '/v1/pets', `${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}`);
const rich = { ...atLoopback, quota: plans.enterprise };

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
    const socket = connect(listening.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.pause();
    await new Promise((resolve) => socket.write(open('GET', '/v1/pets').repeat(500), resolve));
    // Other clients still get responses.
    for (let i = 0; i < 20; i++)
      expect((await sendRaw(listening.port, get('/healthz')))[0]?.status).toBe(200);
    expect(lists).toBeLessThan(30);
    socket.resume();
    await expect.poll(() => lists, { timeout: 60_000 }).toBe(500);
  }, 90_000);

  test('does not block others: requests of another connection are handled in between', async () => {
    const { listening, answered } = await start(atLoopback);
    const flood = `GET /v1/pets HTTP/1.1\r\n${HOST}\r\n`.repeat(3_000);
    const sockets = Array.from({ length: 4 }, () => connect(listening.port, '127.0.0.1'));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });
    for (const socket of sockets) socket.resume().write(flood);
    await expect.poll(() => answered.length).toBeGreaterThan(100);
    const before = answered.length;
    expect((await sendRaw(listening.port, get('/v1/pets?limit=7')))[0]?.status).toBe(200);
    const at = answered.findIndex(({ url }) => url === '/v1/pets?limit=7');
    // The response must not wait until all 12,000 requests of the other connections are handled.
    expect(at - before).toBeLessThan(4_000);
    expect(answered.length).toBeLessThan(11_000);
  });
});

describe('the error of a connection follows the outstanding responses', () => {
  test.each([
    ['CONNECT', `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`, 405],
    ['bytes that are not HTTP', '\0\r\n\r\n', 400],
    ['an unknown method', `FOO /v1/pets HTTP/1.1\r\n${HOST}\r\n`, 405],
    ['headers of 9 KiB', open('GET', '/v1/pets', `X: ${'x'.repeat(9_216)}\r\n\r\n`), 431],
    ['two lengths', open('POST', '/v1/pets', 'Content-Length: 1\r\nContent-Length: 2\r\n\r\n'), 400],
  ])('%s', async (_name, bytes, status) => {
    const { listening, store, answered } = await start(rich);
    const good = add() + open('GET', '/v1/pets').repeat(3) + add();
    const answers = await sendRaw(listening.port, good + bytes + add());
    expect(answers.map((each) => each.status)).toEqual([201, 200, 200, 200, 201, status]);
    expect(await store.size()).toBe(2);
    expect(answered).toHaveLength(5);
    expect(Date.parse(answers.at(-1)?.headers['date'] ?? '')).not.toBeNaN();
  });
});

test('the error is also sent after an unread body, and to a client that has closed its sending side', async () => {
  const { listening } = await start(rich);
  const unread = open('GET', '/v1/pets', `Content-Length: 65536\r\n\r\n${' '.repeat(65_536)}`);
  for (const halfClose of [true, false]) {
    for (let i = 0; i < 10; i++) {
      const answers = await sendRaw(listening.port, `${add()}${unread}g`, { halfClose });
      expect(answers.map(({ status }) => status)).toEqual([201, 200, 400]);
    }
  }
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
  ])('%s', async (_name, bytes) => {
    for (const more of [add(), 'nonsense\r\n\r\n', `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`]) {
      const { listening, store } = await start(atLoopback);
      const answers = await sendRaw(listening.port, bytes + more);
      expect(answers.map(({ status }) => status)).toEqual([200]);
      expect(answers[0]?.headers['connection']).toBe('close');
      expect(await store.size()).toBe(0);
    }
  });

  test('the body that follows an ignored Upgrade later is not a request', async () => {
    const { listening, store, answered } = await start(atLoopback);
    const socket = connect(listening.port, '127.0.0.1');
    const closed = new Promise((resolve) => socket.resume().once('close', resolve));
    socket.on('error', () => {});
    const smuggled = add();
    socket.write(
      open('GET', '/healthz', 'Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n') +
        open('POST', '/v1/nope', `Content-Length: ${smuggled.length}\r\n\r\n`),
    );
    await expect.poll(() => answered.length).toBe(1);
    socket.write(smuggled);
    await closed;
    expect(await store.size()).toBe(0);
    expect(answered.map(({ url }) => url)).toEqual(['/healthz']);
  });
});

test('nothing after a rejected expectation is executed, even if the body was sent', async () => {
  const { listening, store } = await start(rich);
  const refused = `Content-Type: text/plain\r\nExpect: 100-continue\r\nContent-Length: ${REX.length}\r\n\r\n${REX}`;
  const answers = await sendRaw(listening.port, open('POST', '/v1/pets', refused) + add());
  expect(answers.map(({ status }) => status)).toEqual([415]);
  expect(await store.size()).toBe(0);
});

describe('a service that is stopped', () => {
  test('stops although a CONNECT waits for responses that the client does not read', async () => {
    const store = await memoryStore();
    store.list = async () => ({ pets: Buffer.from(`["${'x'.repeat(8_000_000)}"]`) });
    const { listening, answered } = await start({ ...rich, store });
    const socket = connect(listening.port, '127.0.0.1').pause();
    onTestFinished(() => void socket.destroy());
    socket.write(`${open('GET', '/v1/pets').repeat(3)}CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`);
    await expect.poll(() => answered.length).toBeGreaterThan(0);
    await listening.stop(100);
  });

  test('handles at most one more request of each connection that keeps sending', async () => {
    const { listening, answered } = await start(atLoopback);
    const flood = `GET /v1/pets HTTP/1.1\r\n${HOST}\r\n`.repeat(2_000);
    const sockets = Array.from({ length: 4 }, () => connect(listening.port, '127.0.0.1'));
    for (const socket of sockets) {
      socket.on('error', () => {}).resume();
      onTestFinished(() => void socket.destroy());
      let left = 200;
      const pour = () => void (socket.destroyed || left-- === 0 || socket.write(flood, pour));
      pour();
    }
    await expect.poll(() => answered.length, { timeout: 60_000 }).toBeGreaterThan(500);
    const before = answered.length;
    // Must resolve long before the grace period ends, although the clients continue to send.
    await listening.stop(60_000);
    // Only requests that the service had already received are handled, not all 400,000 of each connection.
    expect(answered.length - before).toBeLessThan(40_000);
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

describe('a thousand headers', () => {
  const many = 'a:\r\n'.repeat(1_020);

  test('do not hide a second Host, Authorization, Content-Type or Idempotency-Key', async () => {
    const { listening, store } = await start(atLoopback);
    for (const hidden of [
      'Host: evil.example\r\n',
      'Authorization: Bearer other\r\n',
      'Content-Type: text/plain\r\n',
      'Content-Encoding: gzip\r\n',
      'Idempotency-Key: ""\r\n',
      'Expect: banana\r\n',
    ]) {
      const bytes = `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}Connection: close\r\nContent-Length: ${REX.length}\r\n${many}${hidden}\r\n${REX}`;
      const [answer] = await sendRaw(listening.port, bytes);
      expect([400, 415, 417], hidden).toContain(answer?.status);
    }
    expect(await store.size()).toBe(0);
  });
});

test.each([
  ['HTTP/0.9', `GET /v1/pets HTTP/0.9\r\n${HOST}${AUTH}\r\n`],
  ['HTTP/2.0 in plain text', `GET /v1/pets HTTP/2.0\r\n${HOST}${AUTH}Connection: close\r\n\r\n`],
  [
    'a coding before the chunks',
    open(
      'POST',
      '/v1/pets',
      `${JSON_TYPE}Connection: close\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1d\r\n${REX}\r\n0\r\n\r\n`,
    ),
  ],
  [
    'an empty coding and a length',
    open(
      'POST',
      '/v1/pets',
      `${JSON_TYPE}Connection: close\r\nTransfer-Encoding:\r\nContent-Length: 29\r\n\r\n${REX}`,
    ),
  ],
])('%s is 400', async (_name, bytes) => {
  const { listening, store } = await start(atLoopback);
  const answers = await sendRaw(listening.port, bytes);
  expectError(answers[0], 400, 'invalid_request');
  expect(answers).toHaveLength(1);
  expect(await store.size()).toBe(0);
});

test('the 408 of an unfinished body has the rate limit of its key', async () => {
  const limits = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 };
  const { listening } = await start({ ...atLoopback, limits, quota: { perMinute: 777, perDay: 10_000 } });
  const [answer] = await sendRaw(listening.port, add().slice(0, -5));
  expectError(answer, 408, 'request_timeout');
  expect(answer?.headers).toMatchObject({ 'x-ratelimit-limit': '777', 'x-ratelimit-remaining': '776' });
});

test('the requests of a disconnected client are dropped', async () => {
  const { listening, store } = await start(rich);
  for (let i = 0; i < 20; i++) {
    const socket = connect(listening.port, '127.0.0.1', () => {
      socket.write(add().repeat(50), () => socket.resetAndDestroy());
    });
    await new Promise((resolve) => socket.once('close', resolve));
  }
  expect((await sendRaw(listening.port, get('/v1/pets')))[0]?.status).toBe(200);
  expect(await store.size()).toBeLessThanOrEqual(1_000);
});
