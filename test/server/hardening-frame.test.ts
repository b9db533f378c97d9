import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import { CONNECTION_LIMITS } from '../../src/server/connection/listen.ts';
import { expectError, parseAnswers, sendRaw } from '../helpers/raw-client.ts';
import { AUTH, atLoopback, chunked, get, HOST, JSON_TYPE, post, REX } from '../helpers/raw-requests.ts';
import { KEY, start } from '../helpers/service.ts';

// Attacks of a hostile client, sent as bytes: each gets a complete error response.

describe('the framing of a request', () => {
  test.each([
    [
      'a length and chunks',
      `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    [
      'chunks and a length',
      `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
    ],
    [
      'two lengths',
      `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}Content-Length: 29\r\nContent-Length: 30\r\n\r\n${REX}`,
    ],
    [
      'a length that is none',
      `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}Content-Length: +29\r\n\r\n${REX}`,
    ],
    [
      'another transfer coding',
      `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}Transfer-Encoding: xchunked\r\n\r\n${REX}`,
    ],
    [
      'chunked and then another coding',
      `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
    ],
    ['a chunk size that is none', chunked('zz\r\n')],
    ['a space before the colon', `GET /v1/pets HTTP/1.1\r\n${HOST}Authorization : Bearer ${KEY}\r\n\r\n`],
    ['a folded header', `GET /v1/pets HTTP/1.1\r\n${HOST}X-A: a\r\n Authorization: Bearer ${KEY}\r\n\r\n`],
    ['a NUL in a header', `GET /v1/pets HTTP/1.1\r\n${HOST}X-A: a\0b\r\n\r\n`],
    [
      'a bare line feed in a header',
      `GET /v1/pets HTTP/1.1\r\n${HOST}X-A: a\nAuthorization: Bearer ${KEY}\r\n\r\n`,
    ],
    ['HTTP/2 from the start', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['another version', `GET /v1/pets HTTP/3.0\r\n${HOST}\r\n`],
    ['TLS', Buffer.from('16030100a5010000a10303', 'hex')],
    ['no HTTP at all', 'nonsense\r\n\r\n'],
  ])('%s is 400, adds nothing and closes the connection', async (_name, bytes) => {
    const { listening, store } = await start(atLoopback);
    const answers = await sendRaw(listening.port, bytes);
    expectError(answers.at(-1), 400, 'invalid_request');
    expect(answers).toHaveLength(1);
    expect(await store.size()).toBe(0);
  });

  test('headers of more than 8 KiB are 431', async () => {
    const { listening } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, get('/v1/pets', `X: ${'x'.repeat(9_216)}\r\n`));
    expectError(answer, 431, 'headers_too_large');
  });

  test('a target of more than 8 KiB is 431', async () => {
    const { listening } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, get(`/v1/pets?x=${'x'.repeat(9_216)}`));
    expectError(answer, 431, 'headers_too_large');
  });

  test('a chunk extension of 20 KB is 413, and the animal in the chunk is not added', async () => {
    const { listening, store } = await start(atLoopback);
    const bytes = chunked(`1d;x=${'x'.repeat(20_000)}\r\n${REX}\r\n0\r\n\r\n`);
    expectError((await sendRaw(listening.port, bytes)).at(-1), 413, 'payload_too_large');
    expect(await store.size()).toBe(0);
  });
});

describe('requests on one connection', () => {
  const open = (method: string, target: string, rest = '\r\n') =>
    `${method} ${target} HTTP/1.1\r\n${HOST}${AUTH}${rest}`;
  const add = (name: string) => {
    const body = JSON.stringify({ name, categoryId: 1 });
    return open('POST', '/v1/pets', `${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}`);
  };

  test('get responses in order if pipelined, and a read sees the creation before it', async () => {
    const { listening } = await start({ ...atLoopback, quota: plans.enterprise });
    const rounds = Array.from({ length: 50 }, (_, i) => add(`${i}`) + open('GET', `/v1/pets/${i + 1}`)).join(
      '',
    );
    const answers = await sendRaw(listening.port, rounds + get('/v1/pets'));
    expect(answers).toHaveLength(101);
    for (let i = 0; i < 50; i++) {
      expect(answers[2 * i]?.status).toBe(201);
      expect(answers[2 * i + 1]).toMatchObject({ status: 200, body: answers[2 * i]?.body });
    }
  });

  test('are all counted, even if thousands are pipelined', async () => {
    const { listening, answered } = await start({
      ...atLoopback,
      quota: { perMinute: 3_000, perDay: 10_000 },
    });
    const bytes = open('GET', '/v1/pets').repeat(4_999) + get('/v1/pets');
    const answers = await sendRaw(listening.port, bytes);
    expect(answers).toHaveLength(5_000);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3_000);
    expect(answers.slice(3_000).every(({ status }) => status === 429)).toBe(true);
    expect(answered).toHaveLength(5_000);
  });

  test('are not executed after an invalid one', async () => {
    const { listening, store } = await start(atLoopback);
    const answers = await sendRaw(listening.port, `${open('GET', '/v1/pets')}nonsense\r\n\r\n${add('Rex')}`);
    expect(answers.map(({ status }) => status)).toEqual([200, 400]);
    expect(await store.size()).toBe(0);
  });

  test('cannot be smuggled in as the body of another request', async () => {
    const { listening, answered } = await start(atLoopback);
    const inner = get('/v1/store/orders');
    await sendRaw(
      listening.port,
      open('GET', '/v1/pets', `Content-Length: ${inner.length}\r\n\r\n${inner}`) + get('/v1/pets?limit=1'),
    );
    expect(answered.map(({ url }) => url)).toEqual(['/v1/pets', '/v1/pets?limit=1']);
  });

  test('get responses even if the client has closed its sending side', async () => {
    const { listening, store } = await start(atLoopback);
    const answers = await sendRaw(listening.port, add('Rex') + open('GET', '/v1/pets'), { halfClose: true });
    expect(answers.map(({ status }) => status)).toEqual([201, 200]);
    expect(await store.size()).toBe(1);
  });

  test('add nothing if the client closes its sending side in the middle of a body', async () => {
    const { listening, store } = await start(atLoopback);
    const answers = await sendRaw(listening.port, add('Rex').slice(0, -5), { halfClose: true });
    expectError(answers.at(-1), 400, 'invalid_request');
    expect(answers).toHaveLength(1);
    expect(await store.size()).toBe(0);
  });
});

describe('slow clients', () => {
  // Shorter limits than the real ones, for a fast test.
  const limits = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 };

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
  ])('a client that sends %s gets 408 and is disconnected', async (_name, bytes) => {
    const { listening } = await start({ ...atLoopback, limits });
    expectError((await sendRaw(listening.port, bytes))[0], 408, 'request_timeout');
  });

  test('a client that sends headers slowly gets 408', async () => {
    const { listening } = await start({ ...atLoopback, limits });
    const socket = connect(listening.port, '127.0.0.1', () =>
      socket.write(`GET /v1/pets HTTP/1.1\r\n${HOST}`),
    );
    const drip = setInterval(() => socket.write('X: x\r\n'), 10);
    socket.on('error', () => {});
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    await new Promise((resolve) => socket.once('close', resolve));
    clearInterval(drip);
    expectError(parseAnswers(Buffer.concat(chunks))[0], 408, 'request_timeout');
  });

  test('a client that does not finish its body gets 408 and adds nothing', async () => {
    const { listening, store } = await start({ ...atLoopback, limits });
    const answers = await sendRaw(listening.port, post(REX).subarray(0, -5));
    expectError(answers.at(-1), 408, 'request_timeout');
    expect(answers).toHaveLength(1);
    expect(await store.size()).toBe(0);
  });

  test('200 of them do not block other requests', async () => {
    const { listening, call } = await start(atLoopback);
    const sockets = Array.from({ length: 200 }, () => connect(listening.port, '127.0.0.1'));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });
    await Promise.all(
      sockets.map((socket) => new Promise((resolve) => socket.write('GET /v1/pets HTTP/1.1\r\nHo', resolve))),
    );
    expect((await call('/v1/pets')).status).toBe(200);
  });

  test('the number of connections is limited', async () => {
    const { listening, call } = await start({ ...atLoopback, limits: { maxConnections: 3 } });
    const sockets = Array.from({ length: 10 }, () => connect(listening.port, '127.0.0.1'));
    const closed = sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve)));
    for (const socket of sockets) socket.on('error', () => {});
    await Promise.race(closed);
    for (const socket of sockets) socket.destroy();
    await Promise.all(closed);
    await expect.poll(async () => (await call('/v1/pets').catch(() => undefined))?.status).toBe(200);
  });
});
