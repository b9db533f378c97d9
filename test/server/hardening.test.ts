import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { plans } from '../../src/contract/plans.ts';
import { namesFor } from '../../src/server/hosts.ts';
import { LIMITS } from '../../src/server/listen.ts';
import { expectError, expectRateLimit, parseAnswers, sendRaw } from '../helpers/raw-client.ts';
import { KEY, type ServiceOptions, start } from '../helpers/service.ts';

// The list of what a hostile client tries, sent as bytes: every attack fails, and its answer is as good as any other.

const HOST = 'Host: 127.0.0.1\r\n';
const AUTH = `Authorization: Bearer ${KEY}\r\n`;
const CLOSE = 'Connection: close\r\n';
const JSON_TYPE = 'Content-Type: application/json\r\n';
const REX = '{"name":"Rex","categoryId":1}';

const get = (target: string, headers = '') =>
  `GET ${target} HTTP/1.1\r\n${HOST}${AUTH}${headers}${CLOSE}\r\n`;
const post = (body: string | Buffer, headers = JSON_TYPE) =>
  Buffer.concat([
    Buffer.from(`POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${headers}${CLOSE}`),
    Buffer.from(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`),
    Buffer.from(body),
  ]);
const chunked = (rest: string) =>
  `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}${CLOSE}Transfer-Encoding: chunked\r\n\r\n${rest}`;

const atLoopback: ServiceOptions = { hosts: namesFor('127.0.0.1', []) };

describe('the Host header', () => {
  const withHosts = (hosts: string) => `GET /v1/pets HTTP/1.1\r\n${hosts}${AUTH}${CLOSE}\r\n`;

  test.each([
    ['none', ''],
    ['none of HTTP/1.0', undefined],
    ['two', 'Host: 127.0.0.1\r\nHost: evil.example\r\n'],
    ['the same twice', 'Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n'],
    ['an empty one', 'Host:\r\n'],
    ['one with a user', 'Host: user@127.0.0.1\r\n'],
    ['one with a path', 'Host: 127.0.0.1/v1\r\n'],
    ['two in one', 'Host: 127.0.0.1, evil.example\r\n'],
    ['a port that is none', 'Host: 127.0.0.1:port\r\n'],
  ])('%s is 400', async (_name, hosts) => {
    const { listening } = await start(atLoopback);
    const bytes = hosts === undefined ? `GET /v1/pets HTTP/1.0\r\n${AUTH}\r\n` : withHosts(hosts);
    const [answer, ...more] = await sendRaw(listening.port, bytes);
    expectError(answer, 400, 'invalid_request');
    expect(more).toEqual([]);
  });

  test.each([
    'evil.example',
    'evil.example:7387',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    '192.0.2.1',
    '[::2]',
  ])('%s is 421 at loopback: a foreign page whose name leads here gets nothing', async (host) => {
    const { listening } = await start(atLoopback);
    for (const path of ['/v1/pets', '/healthz']) {
      const bytes = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${AUTH}${CLOSE}\r\n`;
      const [answer] = await sendRaw(listening.port, bytes);
      expectError(answer, 421, 'misdirected_request');
      expect(answer?.body).toContain('--allow-host');
    }
  });

  test.each(['127.0.0.1', '127.0.0.1:80', 'localhost', 'LOCALHOST:9000', '[::1]:7387', '127.8.8.8'])(
    '%s is this machine',
    async (host) => {
      const { listening } = await start(atLoopback);
      expect((await sendRaw(listening.port, withHosts(`Host: ${host}\r\n`)))[0]?.status).toBe(200);
    },
  );

  test('is any name where the service is not bound to loopback, unless names were allowed', () => {
    expect(namesFor('0.0.0.0', [])).toBeUndefined();
    expect(namesFor('192.0.2.7', ['shop.example'])).toEqual(new Set(['192.0.2.7', 'shop.example']));
    expect(namesFor('::1', ['Shop.Example'])).toEqual(new Set(['[::1]', 'shop.example']));
  });

  test('may be a name that was allowed', async () => {
    const { listening } = await start({ hosts: namesFor('127.0.0.1', ['shop.test']) });
    expect((await sendRaw(listening.port, withHosts('Host: shop.test:80\r\n')))[0]?.status).toBe(200);
    expect((await sendRaw(listening.port, withHosts('Host: other.test\r\n')))[0]?.status).toBe(421);
  });
});

describe('the request target', () => {
  test.each([
    ['absolute', 'http://127.0.0.1/v1/pets'],
    ['absolute and foreign', 'http://evil.example/v1/pets'],
    ['two slashes', '//evil.example/v1/pets'],
    ['two slashes before the path', '//v1/pets'],
    ['an asterisk', '*'],
  ])('%s is 400', async (_name, target) => {
    const { listening } = await start(atLoopback);
    expectError((await sendRaw(listening.port, get(target)))[0], 400, 'invalid_request');
  });

  test.each([
    ['a dot segment', '/v1/../v1/pets', 404],
    ['an encoded slash', '/v1%2Fpets', 404],
    ['a file behind', '/v1/pets/..%2f..%2fetc%2fpasswd', 404],
    ['malformed percent-encoding', '/v1/pets?status=%zz', 400],
    ['malformed percent-encoding in a path', '/v1/pets/%c3%28', 400],
    ['a NUL', '/v1/pets/%00', 404],
    ['a doubled parameter', '/v1/pets?limit=1&limit=100', 400],
    ['a doubled parameter, once encoded', '/v1/pets?limit=1&%6cimit=100', 400],
    ['the name of a built-in', '/v1/pets?__proto__=1&constructor=2', 200],
    ['a doubled built-in', '/v1/pets?__proto__=1&__proto__=2', 400],
    ['a resource named as a built-in', '/__proto__', 404],
    ['a hash', '/v1/pets#x', 404],
  ])('%s', async (_name, target, status) => {
    const { listening, errors } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, get(target));
    expect(answer?.status).toBe(status);
    expectRateLimit(answer?.headers ?? {});
    expect(errors).toEqual([]);
  });
});

describe('the frame of a request', () => {
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
  ])('%s is 400, adds nothing, and ends the connection', async (_name, bytes) => {
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

  test('a chunk extension of 20 KB is 413, and the animal behind it is not added', async () => {
    const { listening, store } = await start(atLoopback);
    const bytes = chunked(`1d;x=${'x'.repeat(20_000)}\r\n${REX}\r\n0\r\n\r\n`);
    expectError((await sendRaw(listening.port, bytes)).at(-1), 413, 'payload_too_large');
    expect(await store.size()).toBe(0);
  });
});

describe('the body', () => {
  test.each([
    [
      'by its length',
      post('', `${JSON_TYPE}X: `).toString().replace('Content-Length: 0', 'Content-Length: 10000000'),
    ],
    ['by chunks', chunked(`4000\r\n${'x'.repeat(0x4000)}\r\n`.repeat(5))],
  ])('that is too large is 413 %s, before all of it has come', async (_name, bytes) => {
    const { listening, store, answered } = await start({ ...atLoopback });
    const socket = connect(listening.port, '127.0.0.1', () => socket.write(bytes));
    onTestFinished(() => void socket.destroy());
    const [first] = await new Promise<Buffer[]>((resolve) =>
      socket.once('data', (chunk) => resolve([chunk])),
    );
    expectError(parseAnswers(first ?? Buffer.alloc(0))[0], 413, 'payload_too_large');
    expect(await store.size()).toBe(0);
    expect(answered.map(({ status }) => status)).toEqual([413]);
  });

  test('of exactly 64 KiB is taken, and of one byte more is not', async () => {
    const { listening, store } = await start(atLoopback);
    const name = (length: number) => JSON.stringify({ name: 'x'.repeat(length - 26), categoryId: 1 });
    expect(Buffer.byteLength(name(65_536))).toBe(65_536);
    expect((await sendRaw(listening.port, post(name(65_536))))[0]?.status).toBe(201);
    expectError((await sendRaw(listening.port, post(name(65_537))))[0], 413, 'payload_too_large');
    expect(await store.size()).toBe(1);
  });

  const deep = (depth: number) =>
    `{"name":"Rex","categoryId":1,"x":${'['.repeat(depth)}${']'.repeat(depth)}}`;
  test.each<[string, Buffer, number]>([
    ['nested 32 deep', post(deep(31)), 201],
    ['nested 33 deep', post(deep(32)), 400],
    ['nested 10,000 deep', post(deep(10_000)), 400],
    ['opened 60,000 times', post('['.repeat(60_000)), 400],
    [
      'an exact number and 10,000 levels',
      post(`{"categoryId":9007199254740993,"x":${'['.repeat(10_000)}`),
      400,
    ],
    ['invalid UTF-8', post(Buffer.from('{"name":"\xc3\x28","categoryId":1}', 'latin1')), 400],
    ['an overlong slash', post(Buffer.from('{"name":"\xc0\xaf","categoryId":1}', 'latin1')), 400],
    ['a surrogate in UTF-8', post(Buffer.from('{"name":"\xed\xa0\x80","categoryId":1}', 'latin1')), 400],
    ['UTF-16', post(Buffer.from(REX, 'utf16le')), 400],
    ['two documents', post(`${REX}${REX}`), 400],
    ['another charset', post(REX, 'Content-Type: application/json; charset=utf-16\r\n'), 415],
    ['its charset told', post(REX, 'Content-Type: Application/JSON; charset="UTF-8"\r\n'), 201],
    ['a type that begins alike', post(REX, 'Content-Type: application/jsonp\r\n'), 415],
    ['a form, as a foreign page may send', post(REX, 'Content-Type: text/plain\r\n'), 415],
    ['no type', post(REX, ''), 415],
    ['two types', post(REX, `${JSON_TYPE}Content-Type: text/plain\r\n`), 400],
    ['compressed', post(REX, `${JSON_TYPE}Content-Encoding: gzip\r\n`), 415],
    ['not compressed, and told so', post(REX, `${JSON_TYPE}Content-Encoding: identity\r\n`), 201],
  ])('%s', async (_name, bytes, status) => {
    const { listening, store, errors } = await start(atLoopback);
    const [answer, ...more] = await sendRaw(listening.port, bytes);
    expect(answer?.status).toBe(status);
    expect(more).toEqual([]);
    if (status !== 201)
      expectError(answer, status, status === 415 ? 'unsupported_media_type' : 'invalid_request');
    expect(await store.size()).toBe(status === 201 ? 1 : 0);
    expect(errors).toEqual([]);
  });

  test.each([
    '{"__proto__":{"status":"sold"},"name":"Rex","categoryId":1}',
    '{"__proto__":{"status":"sold"},"name":"Rex","categoryId":9007199254740993}',
    '{"constructor":{"prototype":{"status":"sold"}},"name":"Rex","categoryId":1}',
    '{"name":"Rex","categoryId":9007199254740993,"x":{"__proto__":{"status":"sold"}}}',
  ])('%s changes nothing but one animal', async (body) => {
    const { listening } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, post(body));
    expect(answer?.status).toBe(201);
    expect(JSON.parse(answer?.body ?? '')).toMatchObject({ name: 'Rex', status: 'available' });
    expect(({} as Record<string, unknown>)['status']).toBeUndefined();
  });

  test('is not read from somebody without a key', async () => {
    const { listening, answered } = await start(atLoopback);
    const bytes = `POST /v1/pets HTTP/1.1\r\n${HOST}${JSON_TYPE}Content-Length: 29\r\nExpect: 100-continue\r\n\r\n`;
    const answers = await sendRaw(listening.port, bytes);
    expect(answers.map(({ status }) => status)).toEqual([401]);
    expect(answered).toHaveLength(1);
  });
});

describe('Authorization', () => {
  test.each([
    ['the same twice', `${AUTH}${AUTH}`],
    ['a good one and a bad one', `${AUTH}Authorization: Bearer wrong\r\n`],
    ['in other letters', `${AUTH}AUTHORIZATION: Bearer wrong\r\n`],
  ])('%s is 400', async (_name, headers) => {
    const { listening } = await start(atLoopback);
    const bytes = `GET /v1/pets HTTP/1.1\r\n${HOST}${headers}${CLOSE}\r\n`;
    const [answer] = await sendRaw(listening.port, bytes);
    expectError(answer, 400, 'invalid_request');
    expect(answer?.headers['idempotency-supported']).toBeUndefined();
  });
});

describe('Expect', () => {
  const expecting = (headers: string, body = '') =>
    `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${headers}Content-Length: 29\r\nExpect: 100-continue\r\n\r\n${body}`;

  test('asks for the body once it is wanted, and the animal is added', async () => {
    const { listening, store } = await start(atLoopback);
    const socket = connect(listening.port, '127.0.0.1', () => socket.write(expecting(JSON_TYPE)));
    onTestFinished(() => void socket.destroy());
    const next = () => new Promise<Buffer>((resolve) => socket.once('data', resolve));
    expect(String(await next())).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    socket.write(REX);
    const [answer] = parseAnswers(await next());
    expect(answer?.status).toBe(201);
    expect(answer?.headers['connection']).not.toBe('close');
    expect(await store.size()).toBe(1);
  });

  test.each([
    ['the wrong type', 'Content-Type: text/plain\r\n', 415],
    ['a length over the limit', `${JSON_TYPE}X: `, 413],
  ])(
    'with %s is refused without asking for the body, and the connection ends',
    async (_name, headers, status) => {
      const { listening } = await start(atLoopback);
      const bytes = expecting(headers).replace('X: Content-Length: 29', 'Content-Length: 70000');
      const answers = await sendRaw(listening.port, bytes);
      expect(answers.map((answer) => answer.status)).toEqual([status]);
      expect(answers[0]?.headers['connection']).toBe('close');
    },
  );

  test('anything else is 417', async () => {
    const { listening } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, get('/v1/pets', 'Expect: banana\r\n'));
    expectError(answer, 417, 'expectation_failed');
  });
});

describe('methods and protocols that the service does not have', () => {
  test.each(['FOO', 'BREW', 'PROPFIND', 'TRACE', 'M-SEARCH'])('%s is 405 with Allow', async (method) => {
    const { listening } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, get('/v1/pets').replace('GET', method));
    expectError(answer, 405, 'method_not_allowed');
    expect(answer?.headers['allow']).toBe('GET, HEAD, POST, OPTIONS');
  });

  test('CONNECT is 405, and opens nothing', async () => {
    const { listening } = await start(atLoopback);
    const bytes = `CONNECT evil.example:443 HTTP/1.1\r\n${HOST}\r\n`;
    const answers = await sendRaw(listening.port, bytes);
    expectError(answers[0], 405, 'method_not_allowed');
    expect(answers).toHaveLength(1);
  });

  test('a CONNECT that is cut does not end the service', async () => {
    const { listening, call } = await start(atLoopback);
    for (let i = 0; i < 20; i++) {
      const socket = connect(listening.port, '127.0.0.1', () => {
        socket.write(`CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`, () => socket.resetAndDestroy());
      });
      await new Promise((resolve) => socket.once('close', resolve));
    }
    expect((await call('/v1/pets')).status).toBe(200);
  });

  test.each(['websocket', 'h2c', 'TLS/1.0'])(
    'Upgrade: %s is answered as if it were not there',
    async (protocol) => {
      const { listening } = await start(atLoopback);
      const bytes = `GET /v1/pets HTTP/1.1\r\n${HOST}${AUTH}Upgrade: ${protocol}\r\nConnection: Upgrade, close\r\n\r\n`;
      const answers = await sendRaw(listening.port, bytes);
      expect(answers.map(({ status }) => status)).toEqual([200]);
    },
  );
});

describe('requests on one connection', () => {
  const open = (method: string, target: string, rest = '\r\n') =>
    `${method} ${target} HTTP/1.1\r\n${HOST}${AUTH}${rest}`;
  const add = (name: string) => {
    const body = JSON.stringify({ name, categoryId: 1 });
    return open('POST', '/v1/pets', `${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}`);
  };

  test('pipelined, are answered in their order, and a list shows the animal that was sent before it', async () => {
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

  test('pipelined by the thousand, are all answered, and counted one by one', async () => {
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

  test('behind one that cannot be understood are not carried out', async () => {
    const { listening, store } = await start(atLoopback);
    const answers = await sendRaw(listening.port, `${open('GET', '/v1/pets')}nonsense\r\n\r\n${add('Rex')}`);
    expect(answers.map(({ status }) => status)).toEqual([200, 400]);
    expect(await store.size()).toBe(0);
  });

  test('a body cannot smuggle another in: what stands behind its length is a request of its own', async () => {
    const { listening, answered } = await start(atLoopback);
    const inner = get('/v1/store/orders');
    await sendRaw(
      listening.port,
      open('GET', '/v1/pets', `Content-Length: ${inner.length}\r\n\r\n${inner}`) + get('/v1/pets?limit=1'),
    );
    expect(answered.map(({ url }) => url)).toEqual(['/v1/pets', '/v1/pets?limit=1']);
  });

  test('are answered though the client has closed its side', async () => {
    const { listening, store } = await start(atLoopback);
    const answers = await sendRaw(listening.port, add('Rex') + open('GET', '/v1/pets'), { halfClose: true });
    expect(answers.map(({ status }) => status)).toEqual([201, 200]);
    expect(await store.size()).toBe(1);
  });

  test('a client that closes its side in the middle of a body adds nothing', async () => {
    const { listening, store } = await start(atLoopback);
    const answers = await sendRaw(listening.port, add('Rex').slice(0, -5), { halfClose: true });
    expectError(answers.at(-1), 400, 'invalid_request');
    expect(answers).toHaveLength(1);
    expect(await store.size()).toBe(0);
  });
});

describe('slow clients', () => {
  // The limits that hold are seconds long: these have their shape, and are over at once.
  const limits = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 };

  test('the limits are those of the design', () => {
    expect(LIMITS).toEqual({
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
  ])('who sends %s gets 408, and the connection ends', async (_name, bytes) => {
    const { listening } = await start({ ...atLoopback, limits });
    expectError((await sendRaw(listening.port, bytes))[0], 408, 'request_timeout');
  });

  test('who drips headers gets 408 all the same', async () => {
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

  test('who does not end a body gets 408 and adds nothing', async () => {
    const { listening, store } = await start({ ...atLoopback, limits });
    const answers = await sendRaw(listening.port, post(REX).subarray(0, -5));
    expectError(answers.at(-1), 408, 'request_timeout');
    expect(answers).toHaveLength(1);
    expect(await store.size()).toBe(0);
  });

  test('200 of them do not hinder a good request', async () => {
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

  test('there are no more connections than the limit', async () => {
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
