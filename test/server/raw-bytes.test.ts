import { describe, expect, test } from 'vitest';
import { allowedHosts, MAX_HEADER_BYTES } from '../../src/server/request/checks.ts';
import { sendRaw, sendToService } from '../helpers/raw-client.ts';
import { AUTH, CLOSE, chunked, get, HOST, JSON_TYPE, post, REX } from '../helpers/raw-requests.ts';
import { startReal } from '../helpers/real-service.ts';
import { KEY } from '../helpers/service.ts';

// Requests of a hostile client, sent as bytes. `sendToService` checks that each error response is complete.

type Row = [about: string, bytes: string | Buffer, status: number];

/** Tests that each request gets one response, and that the connection closes then. */
const respond = (...rows: Row[]) =>
  test.each(rows)('%s', async (_about, bytes, status) => {
    expect((await sendToService(bytes)).statuses).toEqual([status]);
  });

const create = (headers: string, body = '') =>
  `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}${CLOSE}${headers}\r\n${body}`;
const list = (headers: string, version = '1.1') => `GET /v1/pets HTTP/${version}\r\n${headers}\r\n`;

/** A request whose line and headers have this many bytes. `headers` returns headers of a given length. */
const withHeaders = (bytes: number, headers: (bytes: number) => string) =>
  get('/v1/pets', headers(bytes - get('/v1/pets').length));
const LONG_TARGET = `http://127.0.0.1${'0'.repeat(5_000)}:80/v1/pets`;
const manyHeaders = (bytes: number) =>
  `${'a: b\r\n'.repeat((bytes - 30) / 6)}X: ${'x'.repeat(25 + (bytes % 6))}\r\n`;

describe('the framing of a request', () => {
  respond(
    ['a length and chunks', create('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'), 400],
    ['chunks and a length', create('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', '0\r\n\r\n'), 400],
    ['two lengths', create('Content-Length: 29\r\nContent-Length: 30\r\n', REX), 400],
    ['a length with a sign', create('Content-Length: +29\r\n', REX), 400],
    ['an unknown coding', create('Transfer-Encoding: xchunked\r\n', REX), 400],
    ['a coding after the chunks', create('Transfer-Encoding: chunked, identity\r\n', '0\r\n\r\n'), 400],
    [
      'a coding before the chunks',
      create('Transfer-Encoding: gzip, chunked\r\n', `1d\r\n${REX}\r\n0\r\n\r\n`),
      400,
    ],
    ['an empty coding and a length', create('Transfer-Encoding:\r\nContent-Length: 29\r\n', REX), 400],
    ['an invalid chunk size', chunked('zz\r\n'), 400],
    [
      'an invalid chunk in the middle of a body that the next bytes complete',
      chunked(`1\r\n{\r\nzz\r\n1c\r\n${REX.slice(1)}\r\n0\r\n\r\n`),
      400,
    ],
    ['a chunk extension of 20 KB', chunked(`1d;x=${'x'.repeat(20_000)}\r\n${REX}\r\n0\r\n\r\n`), 400],
    ['a space before the colon', list(`${HOST}Authorization : Bearer ${KEY}\r\n`), 400],
    ['a folded header', list(`${HOST}X-A: a\r\n Authorization: Bearer ${KEY}\r\n`), 400],
    ['a NUL in a header', list(`${HOST}X-A: a\0b\r\n`), 400],
    ['a bare line feed in a header', list(`${HOST}X-A: a\nAuthorization: Bearer ${KEY}\r\n`), 400],
    ['HTTP/2 from the start', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['HTTP/0.9', list(HOST + AUTH, '0.9'), 400],
    ['HTTP/2.0 in plain text', list(HOST + AUTH + CLOSE, '2.0'), 400],
    ['HTTP/3.0', list(HOST, '3.0'), 400],
    ['TLS', Buffer.from('16030100a5010000a10303', 'hex'), 400],
    ['bytes that are not HTTP', 'nonsense\r\n\r\n', 400],
    ['headers of more than 8 KiB', get('/v1/pets', `X: ${'x'.repeat(9_216)}\r\n`), 431],
    ['a target of more than 8 KiB', get(`/v1/pets?x=${'x'.repeat(9_216)}`), 431],
    [
      'headers of exactly 8 KiB',
      withHeaders(MAX_HEADER_BYTES, (rest) => `X: ${'x'.repeat(rest - 5)}\r\n`),
      200,
    ],
    [
      'headers of one byte more',
      withHeaders(MAX_HEADER_BYTES + 1, (rest) => `X: ${'x'.repeat(rest - 5)}\r\n`),
      431,
    ],
    ['many small headers of 8 KiB', withHeaders(MAX_HEADER_BYTES, manyHeaders), 200],
    ['many small headers of one byte more', withHeaders(MAX_HEADER_BYTES + 1, manyHeaders), 431],
    ['a long host in the target and many headers', get(LONG_TARGET, 'a:\r\n'.repeat(1_000)), 431],
    ['thousands of empty headers', get('/v1/pets', 'a:\r\n'.repeat(8_000)), 431],
    ['an unsupported expectation', get('/v1/pets', 'Expect: banana\r\n'), 417],
  );
});

describe('the body', () => {
  const deep = (depth: number) =>
    post(`{"name":"Rex","categoryId":1,"x":${'['.repeat(depth)}${']'.repeat(depth)}}`);
  const ofLength = (length: number) => post(JSON.stringify({ name: 'x'.repeat(length - 26), categoryId: 1 }));
  const named = (bytes: string) => post(Buffer.from(`{"name":"${bytes}","categoryId":1}`, 'latin1'));
  const withNumber = (number: string, name = 'Rex') =>
    post(`{"name":"${name}","categoryId":1,"x":${number}}`);
  const typed = (type: string) => post(REX, `Content-Type: ${type}\r\n`);
  respond(
    ['of 64 KiB', ofLength(65_536), 201],
    ['of one byte more', ofLength(65_537), 413],
    ['nested 32 deep', deep(31), 201],
    ['nested 33 deep', deep(32), 400],
    ['nested 10,000 deep', deep(10_000), 400],
    ['opened 60,000 times', post('['.repeat(60_000)), 400],
    ['10,000 levels after 2^53 + 1', post(`{"categoryId":9007199254740993,"x":${'['.repeat(10_000)}`), 400],
    ['invalid UTF-8', named('\xc3\x28'), 400],
    ['an overlong slash', named('\xc0\xaf'), 400],
    ['a surrogate in UTF-8', named('\xed\xa0\x80'), 400],
    ['UTF-16', post(Buffer.from(REX, 'utf16le')), 400],
    ['two documents', post(`${REX}${REX}`), 400],
    ['a comment', post('{"name":"Rex","categoryId":1,"x":1/* */}'), 400],
    ['an exponent without digits', post('{"name":"Rex","categoryId":1e}'), 400],
    ['a number of 400 characters', withNumber(`1.${'0'.repeat(398)}`), 201],
    ['a number of one character more', withNumber(`1.${'0'.repeat(399)}`), 400],
    ['a number of 60,000 characters', withNumber('9'.repeat(60_000)), 400],
    ['a long number after a string with quotes', withNumber('1'.repeat(401), '\\"'), 400],
    ['a long number in a name', post(`{"name":"\\"${'1'.repeat(500)}","categoryId":1}`), 201],
    ['60,000 quotes', post('\\"'.repeat(30_000)), 400],
    ['another charset', typed('application/json; charset=utf-16'), 415],
    ['with a charset', typed('Application/JSON; charset="UTF-8"'), 201],
    ['a similar type', typed('application/jsonp'), 415],
    ['a form, as another website can send it', typed('text/plain'), 415],
    ['no type', post(REX, ''), 415],
    ['two types', post(REX, `${JSON_TYPE}Content-Type: text/plain\r\n`), 400],
    ['compressed', post(REX, `${JSON_TYPE}Content-Encoding: gzip\r\n`), 415],
    ['Content-Encoding: identity', post(REX, `${JSON_TYPE}Content-Encoding: identity\r\n`), 201],
  );

  test.each([
    '{"__proto__":{"status":"sold"},"name":"Rex","categoryId":1}',
    '{"__proto__":{"status":"sold"},"name":"Rex","categoryId":9007199254740993}',
    '{"constructor":{"prototype":{"status":"sold"}},"name":"Rex","categoryId":1}',
    '{"name":"Rex","categoryId":9007199254740993,"x":{"__proto__":{"status":"sold"}}}',
  ])('%s has no effect on other objects', async (body) => {
    const { responses } = await sendToService(post(body));
    expect(JSON.parse(responses[0]?.body ?? '')).toMatchObject({ name: 'Rex', status: 'available' });
    expect(({} as Record<string, unknown>)['status']).toBeUndefined();
  });
});

describe('the Host header', () => {
  const hosts = (...values: string[]) =>
    list(`${values.map((host) => `Host: ${host}\r\n`).join('')}${AUTH}${CLOSE}`);
  respond(
    ['none', hosts(), 400],
    ['none with HTTP/1.0', list(AUTH, '1.0'), 200],
    ['one with HTTP/1.0', list(HOST + AUTH, '1.0'), 200],
    ['two with HTTP/1.0', list(HOST + HOST + AUTH, '1.0'), 400],
    ['another one with HTTP/1.0', list(`Host: evil.example\r\n${AUTH}`, '1.0'), 421],
    ['two', hosts('127.0.0.1', 'evil.example'), 400],
    ['the same twice', hosts('127.0.0.1', '127.0.0.1'), 400],
    ['an empty one', hosts(''), 400],
    ['one with a user', hosts('user@127.0.0.1'), 400],
    ['one with a path', hosts('127.0.0.1/v1'), 400],
    ['two in one', hosts('127.0.0.1, evil.example'), 400],
    ['a port that is not a number', hosts('127.0.0.1:port'), 400],
    ...['127.0.0.1', '127.0.0.1:80', 'localhost', 'LOCALHOST:9000', '[::1]:7387', '127.8.8.8'].map(
      (host): Row => [`${host} on loopback`, hosts(host), 200],
    ),
  );

  test.each([
    'evil.example',
    'evil.example:7387',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    '192.0.2.1',
    '[::2]',
  ])('%s is 421 on loopback, against DNS rebinding', async (host) => {
    for (const path of ['/v1/pets', '/healthz']) {
      const bytes = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${AUTH}${CLOSE}\r\n`;
      const { statuses, responses } = await sendToService(bytes);
      expect(statuses).toEqual([421]);
      expect(responses[0]?.body).toContain('--allow-host');
    }
  });

  test.each<[first: string, host: string, second: string, laterHost: string, status: number]>([
    ['/healthz', HOST, '/healthz', 'Host: evil.example\r\n', 421],
    ['/healthz', HOST, '/healthz', HOST + HOST, 400],
    ['/healthz', HOST, '/healthz', '', 400],
    ['/healthz', HOST, 'http://evil.example/healthz', HOST, 421],
    ['http://127.0.0.1/healthz', 'Host: evil.example\r\n', '/healthz', 'Host: evil.example\r\n', 421],
  ])(
    'after GET %s with %j on a connection, GET %s with %j is %i',
    async (first, host, second, later, status) => {
      const bytes = `GET ${first} HTTP/1.1\r\n${host}\r\nGET ${second} HTTP/1.1\r\n${later}${CLOSE}\r\n`;
      const hosts = allowedHosts({ host: '127.0.0.1', address: '127.0.0.1' }, []);
      expect((await sendToService(bytes, { hosts })).statuses).toEqual([200, status]);
    },
  );

  test.each([
    ['0.0.0.0', '0.0.0.0', [], undefined],
    ['::', '::', [], undefined],
    ['192.0.2.7', '192.0.2.7', ['shop.example'], ['192.0.2.7', 'shop.example']],
    ['::1', '::1', ['Shop.Example'], ['[::1]', 'shop.example']],
    ['127.1', '127.0.0.1', [], ['127.1', '127.0.0.1']],
    ['0:0:0:0:0:0:0:1', '::1', [], ['[0:0:0:0:0:0:0:1]', '[::1]']],
    ['::ffff:127.0.0.1', '::ffff:127.0.0.1', [], ['[::ffff:127.0.0.1]', '[::ffff:7f00:1]']],
    ['Ada.Local', '127.0.1.1', [], ['ada.local']],
  ])('listening on %s (%s) with %j allowed, the accepted names are %j', (host, address, allowed, names) => {
    expect(allowedHosts({ host, address }, allowed)).toEqual(names && new Set(names));
  });

  test.each(['127.1', '2130706433', 'localhost'])('a service on %s rejects other names', async (host) => {
    const service = await startReal({ host });
    const bytes = `GET /healthz HTTP/1.1\r\nHost: evil.example\r\n${CLOSE}\r\n`;
    expect((await sendRaw(service.port(), bytes))[0]?.status).toBe(421);
    expect((await service.call('/pets')).status).toBe(200);
  });

  test.each([
    ['shop.test:80', 200],
    ['other.test', 421],
  ])('with shop.test allowed, %s is %i', async (host, status) => {
    const allowed = allowedHosts({ host: '127.0.0.1', address: '127.0.0.1' }, ['shop.test']);
    expect((await sendToService(hosts(host), { hosts: allowed })).statuses).toEqual([status]);
  });
});

describe('the request target', () => {
  respond(
    ...(
      [
        ['an absolute URL', 'http://127.0.0.1/v1/pets', 200],
        ['an absolute URL with a port and a query', 'HTTPS://LocalHost:7387/v1/pets?limit=1', 200],
        ['an absolute URL with an invalid query', 'http://127.0.0.1/v1/pets?limit=0', 400],
        ['an absolute URL without a path', 'http://127.0.0.1', 404],
        ['an absolute URL with a query but no path', 'http://127.0.0.1?limit=1', 404],
        ['an absolute URL of another host', 'http://evil.example/v1/pets', 421],
        ['an absolute URL with a user', 'http://user@127.0.0.1/v1/pets', 400],
        ['an absolute URL without a host', 'http:///v1/pets', 400],
        ['an absolute URL with another scheme', 'ftp://127.0.0.1/v1/pets', 400],
        ['two slashes after the host', 'http://127.0.0.1//v1/pets', 400],
        ['two slashes', '//evil.example/v1/pets', 400],
        ['two slashes before the path', '//v1/pets', 400],
        ['an asterisk', '*', 400],
        ['a dot segment', '/v1/../v1/pets', 404],
        ['an encoded slash', '/v1%2Fpets', 404],
        ['a path traversal', '/v1/pets/..%2f..%2fetc%2fpasswd', 404],
        ['malformed percent-encoding', '/v1/pets?status=%zz', 400],
        ['malformed percent-encoding in a name', '/v1/pets?%c3%28', 400],
        ['malformed percent-encoding in a path', '/v1/pets/%c3%28', 400],
        ['a NUL', '/v1/pets/%00', 404],
        ['a repeated parameter', '/v1/pets?limit=1&limit=100', 400],
        ['a repeated parameter, once encoded', '/v1/pets?limit=1&%6cimit=100', 400],
        ['a built-in name', '/v1/pets?__proto__=1&constructor=2', 200],
        ['a repeated built-in name', '/v1/pets?__proto__=1&__proto__=2', 400],
        ['encoded letters', '/v1/p%65ts?%6cimit=%31', 200],
        ['a plus, which is a space', '/v1/pets?a+b=1&a%20b=1', 400],
        ['an equals sign in a value', '/v1/pets?status=sold=sold', 400],
        ['empty parts of a query', '/v1/pets?&x&&limit=1&', 200],
        ['an empty segment', '/v1//pets', 404],
        ['a segment too many', '/v1/pets/1/2', 404],
        ['a built-in name as path', '/__proto__', 404],
        ['a hash', '/v1/pets#x', 404],
      ] as const
    ).map(([about, target, status]): Row => [about, get(target), status]),
  );

  test.each([
    ['127.0.0.1', 'evil.example', 200],
    ['evil.example', '127.0.0.1', 421],
  ])(
    'an absolute URL of %s with Host: %s is checked instead of the header: %i',
    async (target, host, status) => {
      const bytes = get(`http://${target}/v1/pets`).replace(HOST, `Host: ${host}\r\n`);
      expect((await sendToService(bytes)).statuses).toEqual([status]);
    },
  );

  test('an absolute URL without a Host header is 400, as any request of HTTP/1.1', async () => {
    const bytes = get('http://127.0.0.1/v1/pets').replace(HOST, '');
    expect((await sendToService(bytes)).statuses).toEqual([400]);
  });

  test.each(['*', '/', 'http://127.0.0.1:80', 'http://127.0.0.1/'])(
    'OPTIONS %s is 204 with all methods, without a key',
    async (target) => {
      const bytes = `OPTIONS ${target} HTTP/1.1\r\n${HOST}${CLOSE}\r\n`;
      const { statuses, responses } = await sendToService(bytes);
      expect(statuses).toEqual([204]);
      expect(responses[0]?.headers['allow']).toBe('GET, HEAD, POST, OPTIONS');
    },
  );

  test('OPTIONS / with HTTP/1.0 and no headers, the default health check of HAProxy, is 204', async () => {
    expect((await sendToService('OPTIONS / HTTP/1.0\r\n\r\n')).statuses).toEqual([204]);
  });
});

describe('methods, protocols and keys', () => {
  const upgrade = (protocol: string): Row => [
    `an Upgrade to ${protocol}, which is ignored`,
    list(`${HOST}${AUTH}Upgrade: ${protocol}\r\nConnection: Upgrade, close\r\n`),
    200,
  ];
  respond(
    ['CONNECT, which opens no tunnel', `CONNECT evil.example:443 HTTP/1.1\r\n${HOST}\r\n`, 405],
    ...['websocket', 'h2c', 'TLS/1.0'].map(upgrade),
    [
      'a scheme in capitals, and spaces around the key',
      list(`${HOST}Authorization: BEARER   ${KEY} \r\n${CLOSE}`),
      200,
    ],
  );

  test.each(['FOO', 'BREW', 'PROPFIND', 'TRACE', 'M-SEARCH'])('%s is 405 with Allow', async (method) => {
    const { statuses, responses } = await sendToService(get('/v1/pets').replace('GET', method));
    expect(statuses).toEqual([405]);
    expect(responses[0]?.headers['allow']).toBe('GET, HEAD, POST, OPTIONS');
  });

  test.each([
    ['the same Authorization twice', `${AUTH}${AUTH}`],
    ['a valid and an invalid one', `${AUTH}Authorization: Bearer wrong\r\n`],
    ['an invalid one in upper case', `${AUTH}AUTHORIZATION: Bearer wrong\r\n`],
  ])('%s is 400', async (_about, headers) => {
    const { statuses, responses } = await sendToService(list(`${HOST}${headers}${CLOSE}`));
    expect(statuses).toEqual([400]);
    expect(responses[0]?.headers['idempotency-supported']).toBeUndefined();
  });

  test.each([
    'Host: evil.example\r\n',
    'Authorization: Bearer other\r\n',
    'Content-Type: text/plain\r\n',
    'Content-Encoding: gzip\r\n',
    'Idempotency-Key: ""\r\n',
    'Expect: banana\r\n',
  ])('a thousand headers do not hide %j', async (hidden) => {
    const bytes = create(`Content-Length: ${REX.length}\r\n${'a:\r\n'.repeat(1_020)}${hidden}`, REX);
    expect([400, 415, 417]).toContain((await sendToService(bytes)).statuses[0]);
  });
});
