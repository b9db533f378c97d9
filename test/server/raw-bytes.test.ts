import { describe, expect, test } from 'vitest';
import { allowedHosts, checkHost } from '../../src/server/request/checks.ts';
import {
  AUTH,
  CLOSE,
  chunked,
  connectTo,
  get,
  HOST,
  JSON_TYPE,
  post,
  REX,
  sendRaw,
  sendToService,
} from '../helpers/raw-client.ts';
import { startReal } from '../helpers/real-service.ts';
import { KEY, start } from '../helpers/service.ts';

// Requests of a hostile client, sent as bytes. `sendToService` checks that each error response is complete.
// fuzz-requests.test.ts tests other invalid parts of requests.

type Row = [about: string, bytes: string | Buffer, status: number];

/** Tests that each request gets one response, and that the connection closes then. */
const respond = (...rows: Row[]) =>
  test.each(rows.map(([about, bytes, status]) => ({ about, bytes, status })))(
    '$about gets $status',
    async ({ bytes, status }) => {
      expect((await sendToService(bytes)).statuses).toEqual([status]);
    },
  );

const create = (headers: string, body = '') =>
  `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}${CLOSE}${headers}\r\n${body}`;
const list = (headers: string) => `GET /v1/pets HTTP/1.1\r\n${headers}\r\n`;

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
    ['TLS', Buffer.from('16030100a5010000a10303', 'hex'), 400],
    ['a target of more than 8 KiB', get(`/v1/pets?x=${'x'.repeat(9_216)}`), 431],
  );
});

describe('the body', () => {
  const deep = (depth: number) =>
    post(`{"name":"Rex","categoryId":1,"x":${'['.repeat(depth)}${']'.repeat(depth)}}`);
  const named = (bytes: string) => post(Buffer.from(`{"name":"${bytes}","categoryId":1}`, 'latin1'));
  const withNumber = (number: string, name = 'Rex') =>
    post(`{"name":"${name}","categoryId":1,"x":${number}}`);
  respond(
    ['of 64 KiB', named('x'.repeat(65_536 - 26)), 201],
    ['of one byte more', named('x'.repeat(65_536 - 25)), 413],
    ['nested 32 deep', deep(31), 201],
    ['nested 33 deep', deep(32), 400],
    ['opened 60,000 times', post('['.repeat(60_000)), 400],
    ['invalid UTF-8', named('\xc3\x28'), 400],
    ['a surrogate in UTF-8', named('\xed\xa0\x80'), 400],
    ['a number of 400 characters', withNumber(`1.${'0'.repeat(398)}`), 201],
    ['a number of one character more', withNumber(`1.${'0'.repeat(399)}`), 400],
    ['a number of 60,000 characters', withNumber('9'.repeat(60_000)), 400],
    ['a long number after a string with quotes', withNumber('1'.repeat(401), '\\"'), 400],
    ['a long number in a name', named(`\\"${'1'.repeat(500)}`), 201],
    ['60,000 quotes', post('\\"'.repeat(30_000)), 400],
  );
});

describe('the Host header', () => {
  const hosts = allowedHosts({ host: '127.0.0.1', address: '127.0.0.1' }, []);

  test.each<[host: string, target: string, status: number]>([
    ['Host: evil.example\r\n', '/openapi.json', 421],
    [HOST + HOST, '/openapi.json', 400],
    ['', '/openapi.json', 400],
    ['', 'http://127.0.0.1/openapi.json', 400],
    [HOST, 'http://evil.example/openapi.json', 421],
    ['Host: evil.example\r\n', 'http://127.0.0.1/openapi.json', 200],
  ])('%j with the target %s is %i, also after a request that was accepted', async (host, target, status) => {
    const { listening } = await start({ hosts });
    const line = connectTo(listening.port);
    expect((await line.ask(`GET /openapi.json HTTP/1.1\r\n${HOST}\r\n`)).status).toBe(200);
    expect((await line.ask(`GET ${target} HTTP/1.1\r\n${host}\r\n`)).status).toBe(status);
  });

  test.each(['/healthz', '/readyz'])('of a health check at %s may be any', async (path) => {
    for (const host of ['10.1.2.3:8080', 'pod.internal', '[fd00::7]']) {
      const bytes = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${CLOSE}\r\n`;
      expect((await sendToService(bytes, { hosts })).statuses).toEqual([200]);
    }
    const twice = `GET ${path} HTTP/1.1\r\n${HOST}${HOST}${CLOSE}\r\n`;
    expect((await sendToService(twice, { hosts })).statuses).toEqual([400]);
  });

  test.each([
    ['192.0.2.7:80', '192.0.2.7', true],
    ['192.0.2.7', '::ffff:192.0.2.7', true],
    ['[2001:DB8:0::1]:443', '2001:db8::1', true],
    ['192.0.2.8', '192.0.2.7', false],
    ['evil.example', '192.0.2.7', false],
  ])('%s is accepted on a connection that arrived at %s: %s', (host, localAddress, isAccepted) => {
    const request = { httpVersion: '1.1', headers: { host }, socket: { localAddress } } as never;
    const check = () => checkHost(request, undefined, new Set(['shop.example']));
    if (isAccepted) expect(check).not.toThrow();
    else expect(check).toThrow('is not allowed');
  });

  test.each([
    ['0.0.0.0', '0.0.0.0', [], undefined],
    ['::', '::', [], undefined],
    ['192.0.2.7', '192.0.2.7', ['a.example'], ['192.0.2.7', 'a.example', 'shop.example']],
    ['::1', '::1', ['A.Example'], ['[::1]', 'a.example', 'shop.example']],
    ['127.1', '127.0.0.1', [], ['127.1', '127.0.0.1', 'shop.example']],
    ['0:0:0:0:0:0:0:1', '::1', [], ['[0:0:0:0:0:0:0:1]', '[::1]', 'shop.example']],
    ['::ffff:127.0.0.1', '::ffff:127.0.0.1', [], ['[::ffff:127.0.0.1]', '[::ffff:7f00:1]', 'shop.example']],
    ['Ada.Local', '127.0.1.1', [], ['ada.local', 'shop.example']],
  ])('listening on %s (%s) with %j allowed, the accepted names are %j', (host, address, allowed, names) => {
    const accepted = allowedHosts({ host, address }, allowed, 'https://Shop.Example:8443/v1');
    expect(accepted).toEqual(names && new Set(names));
  });

  test.each(['127.1', '2130706433', 'localhost'])('a service on %s rejects other names', async (host) => {
    const publicUrl = 'https://shop.example/v1';
    const service = await startReal({ host, allowHosts: ['a.example'], publicUrl });
    for (const [name, status] of [
      ['a.example:80', 200],
      ['SHOP.example:8443', 200],
      ['evil.example', 421],
    ] as const) {
      const bytes = `GET /openapi.json HTTP/1.1\r\nHost: ${name}\r\n${CLOSE}\r\n`;
      const [response] = await sendRaw(service.port(), bytes);
      expect(response?.status).toBe(status);
      if (status === 421) expect(response?.body).toContain(`--allow-host ${name}`);
    }
    expect((await service.call('/pets')).status).toBe(200);
  });
});

test.each([
  'Host: evil.example\r\n',
  'Authorization: Bearer other\r\n',
  'Content-Encoding: gzip\r\n',
  'Expect: banana\r\n',
])('a thousand headers do not hide %j', async (hidden) => {
  const bytes = create(`Content-Length: ${REX.length}\r\n${'a:\r\n'.repeat(1_020)}${hidden}`, REX);
  expect([400, 415, 417]).toContain((await sendToService(bytes)).statuses[0]);
});

test.each(['*', '/', 'http://127.0.0.1:80', 'http://127.0.0.1/'])(
  'OPTIONS %s is 204 with all methods, without a key',
  async (target) => {
    const { responses } = await sendToService(`OPTIONS ${target} HTTP/1.1\r\n${HOST}${CLOSE}\r\n`);
    expect(responses).toMatchObject([{ status: 204, headers: { allow: 'GET, HEAD, POST, OPTIONS' } }]);
  },
);

test('OPTIONS / with HTTP/1.0 and no headers, the default health check of HAProxy, is 204', async () => {
  expect((await sendToService('OPTIONS / HTTP/1.0\r\n\r\n')).statuses).toEqual([204]);
});
