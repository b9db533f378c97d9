import { describe, expect, test } from 'vitest';
import { CallError } from '../../src/cli/errors/call-error.ts';
import { describeError } from '../../src/cli/errors/describe-error.ts';
import type { KeySource } from '../../src/cli/profiles/profile.ts';
import { type ClientError, NetworkError } from '../../src/client/errors.ts';

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
