import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { allowedHosts } from '../../src/server/request/hosts.ts';
import { expectError, expectRateLimit, sendRaw } from '../helpers/raw-client.ts';
import { AUTH, atLoopback, CLOSE, get, HOST } from '../helpers/raw-requests.ts';
import { startReal } from '../helpers/real-service.ts';
import { start } from '../helpers/service.ts';

// Attacks of a hostile client, sent as bytes: each gets a complete error response.

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
  ])('%s is 421 on loopback, against DNS rebinding', async (host) => {
    const { listening } = await start(atLoopback);
    for (const path of ['/v1/pets', '/healthz']) {
      const bytes = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${AUTH}${CLOSE}\r\n`;
      const [answer] = await sendRaw(listening.port, bytes);
      expectError(answer, 421, 'misdirected_request');
      expect(answer?.body).toContain('--allow-host');
    }
  });

  test('a valid Host does not make later ones on the connection valid', async () => {
    const { listening } = await start(atLoopback);
    const ask = (hosts: string, close = '') => `GET /healthz HTTP/1.1\r\n${hosts}${close}\r\n`;
    for (const [hosts, status] of [
      ['Host: evil.example\r\n', 421],
      ['Host: localhost\r\nHost: localhost\r\n', 400],
      ['', 400],
    ] as const) {
      const bytes = ask('Host: localhost\r\n') + ask(hosts, CLOSE);
      const answers = await sendRaw(listening.port, bytes);
      expect(answers.map((answer) => answer.status)).toEqual([200, status]);
    }
  });

  test.each(['127.0.0.1', '127.0.0.1:80', 'localhost', 'LOCALHOST:9000', '[::1]:7387', '127.8.8.8'])(
    '%s is accepted on loopback',
    async (host) => {
      const { listening } = await start(atLoopback);
      expect((await sendRaw(listening.port, withHosts(`Host: ${host}\r\n`)))[0]?.status).toBe(200);
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

  test('may be an allowed name', async () => {
    const { listening } = await start({
      hosts: allowedHosts({ host: '127.0.0.1', address: '127.0.0.1' }, ['shop.test']),
    });
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
    ['a path traversal', '/v1/pets/..%2f..%2fetc%2fpasswd', 404],
    ['malformed percent-encoding', '/v1/pets?status=%zz', 400],
    ['malformed percent-encoding in a path', '/v1/pets/%c3%28', 400],
    ['a NUL', '/v1/pets/%00', 404],
    ['a repeated parameter', '/v1/pets?limit=1&limit=100', 400],
    ['a repeated parameter, once encoded', '/v1/pets?limit=1&%6cimit=100', 400],
    ['a built-in name', '/v1/pets?__proto__=1&constructor=2', 200],
    ['a repeated built-in name', '/v1/pets?__proto__=1&__proto__=2', 400],
    ['a built-in name as path', '/__proto__', 404],
    ['a hash', '/v1/pets#x', 404],
  ])('%s', async (_name, target, status) => {
    const { listening, errors } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, get(target));
    expect(answer?.status).toBe(status);
    expectRateLimit(answer?.headers ?? {});
    expect(errors).toEqual([]);
  });
});

describe('Authorization', () => {
  test.each([
    ['the same twice', `${AUTH}${AUTH}`],
    ['a valid and an invalid one', `${AUTH}Authorization: Bearer wrong\r\n`],
    ['in upper case', `${AUTH}AUTHORIZATION: Bearer wrong\r\n`],
  ])('%s is 400', async (_name, headers) => {
    const { listening } = await start(atLoopback);
    const bytes = `GET /v1/pets HTTP/1.1\r\n${HOST}${headers}${CLOSE}\r\n`;
    const [answer] = await sendRaw(listening.port, bytes);
    expectError(answer, 400, 'invalid_request');
    expect(answer?.headers['idempotency-supported']).toBeUndefined();
  });
});

describe('unsupported methods and protocols', () => {
  test.each(['FOO', 'BREW', 'PROPFIND', 'TRACE', 'M-SEARCH'])('%s is 405 with Allow', async (method) => {
    const { listening } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, get('/v1/pets').replace('GET', method));
    expectError(answer, 405, 'method_not_allowed');
    expect(answer?.headers['allow']).toBe('GET, HEAD, POST, OPTIONS');
  });

  test('CONNECT is 405 and opens no tunnel', async () => {
    const { listening } = await start(atLoopback);
    const bytes = `CONNECT evil.example:443 HTTP/1.1\r\n${HOST}\r\n`;
    const answers = await sendRaw(listening.port, bytes);
    expectError(answers[0], 405, 'method_not_allowed');
    expect(answers).toHaveLength(1);
  });

  test('a CONNECT whose client disconnects does not end the service', async () => {
    const { listening, call } = await start(atLoopback);
    for (let i = 0; i < 20; i++) {
      const socket = connect(listening.port, '127.0.0.1', () => {
        socket.write(`CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`, () => socket.resetAndDestroy());
      });
      await new Promise((resolve) => socket.once('close', resolve));
    }
    expect((await call('/v1/pets')).status).toBe(200);
  });

  test.each(['websocket', 'h2c', 'TLS/1.0'])('Upgrade: %s is ignored', async (protocol) => {
    const { listening } = await start(atLoopback);
    const bytes = `GET /v1/pets HTTP/1.1\r\n${HOST}${AUTH}Upgrade: ${protocol}\r\nConnection: Upgrade, close\r\n\r\n`;
    const answers = await sendRaw(listening.port, bytes);
    expect(answers.map(({ status }) => status)).toEqual([200]);
  });
});
