import { readFile } from 'node:fs/promises';
import { createSecureServer } from 'node:http2';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CallError, describeError } from '../../src/cli/errors/describe-error.ts';
import type { KeySource } from '../../src/cli/profiles/profile.ts';
import { type ClientError, NetworkError } from '../../src/client/errors.ts';
import { PET } from '../helpers/client.ts';
import { runInTerminal } from '../helpers/context.ts';
import { closedPort, listenOnLoopback } from '../helpers/listen.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { TLS_DIRECTORY } from '../helpers/tls-server.ts';
import { rawServer } from '../helpers/wire-server.ts';

const NOW = Date.UTC(2026, 10, 22, 12);

/** The message and the hint for an error of a request to this base URL. */
function explain(cause: ClientError, baseUrl: string, keySource: KeySource = 'this login') {
  const call = new CallError(cause, { profile: 'prod', baseUrl, key: '', keySource });
  const { message, hint } = describeError(call, {
    clock: { now: () => NOW },
    platform: 'linux',
    console: { timeZone: () => 'UTC' },
  });
  return [message.replace(/^cannot reach \S+ /, ''), hint];
}

const CERTIFICATE = expect.stringContaining('client certificate, which pets cannot send');
const VERSION = [
  'it does not support any version of TLS that pets accepts',
  'the service, or a proxy in front of it, must support TLS 1.2 or newer',
];
const CLOCK = 'check the clock of this machine, which shows 2026-11-22T12:00:00.000Z';

// The codes are those of Node 20 (OpenSSL 3.0) and Node 24 (OpenSSL 3.5).
test.each<[code: string, sent: boolean, baseUrl: string, unknown[]]>([
  ['CERT_NOT_YET_VALID', false, 'https://a.example/v1', ['its certificate is not valid yet', CLOCK]],
  ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', false, 'https://a.example/v1', VERSION],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', false, 'https://a.example/v1', VERSION],
  [
    'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE',
    false,
    'https://a.example/v1',
    ['it refused the TLS connection', CERTIFICATE],
  ],
  [
    'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE',
    false,
    'https://a.example/v1',
    ['it refused the TLS connection', CERTIFICATE],
  ],
  [
    'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
    true,
    'https://a.example/v1',
    ['it refused the TLS connection', CERTIFICATE],
  ],
  ['UND_ERR_SOCKET', true, 'https://a.example/v1', ['connection closed', CERTIFICATE]],
  [
    'UND_ERR_SOCKET',
    true,
    'http://127.0.0.1:8443/v1',
    ['connection closed', 'if the service uses https, use the base URL https://127.0.0.1:8443/v1'],
  ],
  [
    'ERR_SSL_WRONG_VERSION_NUMBER',
    false,
    'https://127.0.0.1:7387/v1',
    ['it does not use https', 'use the base URL http://127.0.0.1:7387/v1'],
  ],
])('%s (sent: %s, %s) is explained', (code, sent, baseUrl, expected) => {
  expect(explain(new NetworkError('', { code, sent }), baseUrl)).toEqual(expected);
});

describe('other errors keep their general hint', () => {
  test.each<[code: string, sent: boolean, baseUrl: string, KeySource]>([
    ['UND_ERR_SOCKET', true, 'https://a.example/v1', 'profile prod'],
    ['UND_ERR_SOCKET', false, 'https://a.example/v1', 'this login'],
    ['CERT_HAS_EXPIRED', false, 'https://a.example/v1', 'this login'],
    ['ENOTFOUND', false, 'https://a.example/v1', 'this login'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', false, 'https://a.example/v1', 'this login'],
  ])('%s (sent: %s, %s, %s)', (code, sent, baseUrl, keySource) => {
    const [, hint] = explain(new NetworkError('', { code, sent }), baseUrl, keySource);
    expect(hint).toContain(`check the network and the base URL ${baseUrl}`);
  });
});

/** Lists all animals at a base URL. Returns what the command printed to stderr, which must be lines of JSON. */
async function listAt(baseUrl: string, env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await runInTerminal(['list', '--all', '--json'], {
    env: { PETS_BASE_URL: baseUrl, PETS_API_KEY: 'pets_key', PETS_ALLOW_HTTP: '1', ...env },
  });
  const lines = stderr.trim().split('\n');
  return { code, stdout, lines: lines.map((line) => JSON.parse(line)), stderr };
}

describe('a service that supports only HTTP/2 is named as such, without a retry', () => {
  const message = expect.stringMatching(/^cannot reach 127\.0\.0\.1:\d+: it supports only HTTP\/2$/);
  const hint = 'use an address of the service that supports HTTP/1.1';

  test('without TLS', async () => {
    let requests = 0;
    const server = await rawServer((socket) =>
      socket.once('data', () => {
        requests++;
        // The frame with its settings, which begins every connection.
        socket.end(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
      }),
    );
    const { code, stdout, lines } = await listAt(server.url);
    expect([code, stdout, requests]).toEqual([6, '', 1]);
    expect(lines).toMatchObject([{ error: { code: 'network_error', message, hint } }]);
  });

  test('with TLS', async () => {
    const [key, cert] = await Promise.all(
      ['server.key', 'localhost.pem'].map((name) => readFile(join(TLS_DIRECTORY, name))),
    );
    let connections = 0;
    const server = createSecureServer({ key, cert }).on('connection', () => connections++);
    const { lines } = await listAt(`https://127.0.0.1:${await listenOnLoopback(server)}/v1`);
    expect(lines).toMatchObject([{ error: { code: 'network_error', message, hint } }]);
    expect(connections).toBe(1);
  });
});

test('if a proxy changes paths, the hint names the next page and the base URL', async () => {
  const { origin, requests } = await scriptedServer(({ url }, response) =>
    url?.startsWith('/shop/v1/')
      ? reply(response, 200, [PET], { Link: '</v1/pets?page=2>; rel="next"' })
      : reply(response, 404, '<html>no such page</html>', { 'Content-Type': 'text/html' }),
  );
  const { code, stdout, lines } = await listAt(`${origin}/shop/v1`);
  expect([code, stdout, requests.length]).toEqual([7, '', 2]);
  expect(lines).toMatchObject([
    {
      error: {
        code: 'contract_error',
        message: expect.stringContaining('cannot read the next page'),
        hint: `the next page is ${origin}/v1/pets?page=2, which is not below the base URL ${origin}/shop/v1; a proxy probably changes paths. Use the base URL of the service itself, or let the service link to ${origin}/shop/v1`,
      },
    },
  ]);
});

test('if the service counts more animals than it sends, and links to no next page, a note says so', async () => {
  const { url } = await scriptedServer((_, response) =>
    reply(response, 200, [PET], { 'X-Total-Count': '2' }),
  );
  const { code, stdout, lines } = await listAt(url);
  expect([code, JSON.parse(stdout)]).toEqual([0, [PET]]);
  expect(lines).toEqual([{ notice: 'there may be more: the service sends no link to a next page' }]);
});

test.each(['ALL_PROXY', 'all_proxy'])('%s is named as not supported, without its password', async (name) => {
  const port = await closedPort();
  const { code, lines, stderr } = await listAt(`http://0.0.0.0:${port}/v1`, {
    [name]: 'socks5://ada:hunter2@proxy.invalid',
  });
  expect([code, lines.at(-1).error.hint]).toEqual([
    6,
    expect.stringContaining(`; ${name} is not supported: set HTTPS_PROXY or HTTP_PROXY instead`),
  ]);
  expect(stderr).not.toContain('hunter2');
});
