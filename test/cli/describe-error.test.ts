import { expect, test } from 'vitest';
import { CliError, fileError, systemReason, usageError } from '../../src/cli/core/errors.ts';
import { exitCodeMeanings, exitCodes } from '../../src/cli/core/exit-codes.ts';
import { CallError, describeError } from '../../src/cli/errors/describe-error.ts';
import { OutputError } from '../../src/cli/output/console.ts';
import type { Connection } from '../../src/cli/profiles/profile.ts';
import {
  ApiFailure,
  ContractError,
  InterruptedError,
  NetworkError,
  OutcomeUnknownError,
  RateLimitError,
  TimeoutError,
} from '../../src/client/errors.ts';
import { StoreError } from '../../src/store/errors.ts';

const connection: Connection = {
  profile: 'staging',
  baseUrl: 'https://api.example.com/v1',
  key: 'pets_secret_k2mX',
  keySource: 'profile staging',
};
const failure = (status: number, code = 'a_code') => new ApiFailure(status, { code, reason: 'why' });
const network = (code: string | undefined, message = 'odd') =>
  new NetworkError(message, { code, sent: true });
const NOW = Date.parse('2026-11-20T12:00:00Z');
const CONTEXT = { clock: { now: () => NOW }, platform: 'linux', console: { timeZone: () => 'UTC' } } as const;
const LOCAL = 'http://127.0.0.1:7387/v1';
const at = (baseUrl: string) => ({ baseUrl });
const START = 'is the local service running? Start it: ';
const UNKNOWN_AUTHORITY = 'an unknown authority';
const TRUST = 'NODE_EXTRA_CA_CERTS';
const errno = (code: string) => Object.assign(new Error(`${code}: words`), { code });

test.each([
  [usageError('wrong', 'do this'), 2, 'usage', 'wrong', 'do this'],
  [new CliError('none', { code: 'no_key' }), 4, 'no_key', 'none', undefined],
  [fileError('read', '/a', errno('EACCES')), 1, 'file_error', 'cannot read /a: permission denied', undefined],
  [new StoreError('damaged', 'restore it'), 1, 'store_error', 'damaged', 'restore it'],
  [new InterruptedError(), 130, 'interrupted', 'interrupted', undefined],
  [new OutputError(errno('ENOSPC')), 1, 'output_error', 'cannot write the output', 'free some disk space'],
  [failure(400), 1, 'a_code', 'api.example.com: why', '--debug'],
  [
    failure(401),
    4,
    'a_code',
    'api.example.com rejected key …k2mX from profile staging: why',
    'pets login --profile staging',
  ],
  [failure(403), 1, 'a_code', 'api.example.com: why', 'use a key that is allowed to do this'],
  [new ApiFailure(403), 4, 'http_403', 'rejected key …k2mX', '--profile staging'],
  [new ApiFailure(403, { reason: 'Forbidden' }), 4, 'http_403', 'rejected key …k2mX', '--profile staging'],
  [new ApiFailure(403, { text: '403 Forbidden nginx/1.24.0' }), 4, 'http_403', 'rejected key', 'pets login'],
  [new ApiFailure(403, { text: 'Your IP is blocked' }), 1, 'http_403', 'HTTP status 403', 'use a key that'],
  [new ApiFailure(400, { reason: 'why' }), 7, 'http_400', 'api.example.com: why', '--debug'],
  [failure(405), 1, 'a_code', 'why', connection.baseUrl],
  [failure(408), 1, 'a_code', 'why', 'try again later'],
  [new ApiFailure(413, { reason: 'why' }), 7, 'http_413', 'why', 'this size'],
  [failure(404), 3, 'a_code', 'why', connection.baseUrl],
  [failure(409), 1, 'a_code', 'why', '--debug'],
  [failure(422), 1, 'a_code', 'why', '--debug'],
  [failure(422, 'idempotency_mismatch'), 1, 'idempotency_mismatch', 'why', 'another --idempotency-key'],
  [failure(500), 7, 'a_code', 'why', 'try again'],
  [new ApiFailure(502), 7, 'http_502', 'HTTP status 502', 'try again'],
  [
    new RateLimitError(NOW + 30_000, { neededMaxWait: 30_000 }),
    5,
    'rate_limited',
    'no request is sent to api.example.com until 12:00:30 UTC (in 30 s): the rate limit is used up',
    'or wait with --max-wait 30. To check the limit now: pets profiles --check',
  ],
  [
    new RateLimitError(NOW + 30_000, {
      response: { code: 'key_banned', reason: 'stop' },
      neededMaxWait: 30_000,
    }),
    5,
    'key_banned',
    'api.example.com has banned this key until 12:00:30 UTC (in 30 s): stop',
    'try again after this time, or wait with --max-wait 30',
  ],
  [new RateLimitError(NOW + 43_200_000), 5, 'rate_limited', '2026-11-21 00:00:00 UTC (in 12 h)', 'try again'],
  [new RateLimitError(0), 5, 'rate_limited', 'until 1970-01-01 00:00:00 UTC', 'try again after this time'],
  [
    new RateLimitError(Number.MAX_VALUE),
    5,
    'rate_limited',
    'no request is sent to api.example.com: the rate limit is used up',
    'try again later',
  ],
  [new TimeoutError(200, { sent: true }), 6, 'timeout', 'no response within 0.2 s', '--timeout'],
  [network('ECONNREFUSED'), 6, 'network_error', 'api.example.com: connection refused', 'check the network'],
  [network('ECONNREFUSED'), 6, 'network_error', '127.0.0.1:7387', `${START}pets serve`, at(LOCAL)],
  [
    network('ECONNREFUSED'),
    6,
    'network_error',
    'localhost:8080',
    `${START}pets serve --port 8080`,
    at('http://localhost:8080/v1'),
  ],
  [network('ECONNRESET'), 6, 'network_error', 'connection closed', 'check the network', at(LOCAL)],
  [
    network('ECONNREFUSED'),
    6,
    'network_error',
    'refused',
    'check the network',
    at('https://127.0.0.1:7387/v1'),
  ],
  [
    network('ECONNREFUSED'),
    6,
    'network_error',
    'refused',
    'check the network',
    at('http://192.0.2.1:7387/v1'),
  ],
  [network('UNABLE_TO_GET_ISSUER_CERT_LOCALLY'), 6, 'network_error', UNKNOWN_AUTHORITY, TRUST],
  [network('DEPTH_ZERO_SELF_SIGNED_CERT'), 6, 'network_error', UNKNOWN_AUTHORITY, TRUST],
  [network('CERT_HAS_EXPIRED'), 6, 'network_error', 'certificate has expired', 'check the network'],
  [network('ERR_TLS_CERT_ALTNAME_INVALID'), 6, 'network_error', 'for another host name', 'check the network'],
  [network('ERR_SSL_WRONG_VERSION_NUMBER'), 6, 'network_error', 'not use https', 'check the network'],
  [network('ENOTFOUND'), 6, 'network_error', 'host not found', 'check the network'],
  [network(undefined), 6, 'network_error', 'odd', 'check the network'],
  [new ContractError(200, 'not JSON'), 7, 'contract_error', 'api.example.com: not JSON', connection.baseUrl],
  [new Error('oops'), 1, 'internal_error', 'unexpected error: oops', '--debug'],
  ['text', 1, 'internal_error', 'unexpected error: text', '--debug'],
  [undefined, 1, 'internal_error', 'unexpected', '--debug'],
] as [unknown, number, string, string, string | undefined, Partial<Connection>?][])(
  '%s: exit code %i, error code %s, message %j, hint %j',
  (error, exit, code, message, hint, change) => {
    const described = describeError(new CallError(error, { ...connection, ...change }), CONTEXT);
    expect(described).toMatchObject({ exitCode: exit, code, message: expect.stringContaining(message) });
    if (hint === undefined) expect(described.hint).toBeUndefined();
    else expect(described.hint).toContain(hint);
  },
);

test.each([
  [
    true,
    'staging',
    'profile staging',
    'pets list --all --profile staging; to retry without adding it twice, run the same command within 24 hours with --idempotency-key k-1',
  ],
  [
    false,
    'staging',
    'profile staging',
    'pets list --all --profile staging; add it again only if it is missing',
  ],
  [false, 'prod', 'PETS_API_KEY', 'pets list --all; add it again only if it is missing'],
] as const)(
  'the hint for an unknown outcome (idempotency supported: %s, profile %s, key from %s)',
  (supportsIdempotency, profile, keySource, hint) => {
    for (const [cause, exitCode, code, reason] of [
      [network('ECONNRESET'), 6, 'outcome_unknown', 'connection closed'],
      [new TimeoutError(200, { sent: true }), 6, 'outcome_unknown', 'no response within 0.2 s'],
      [failure(503), 6, 'outcome_unknown', 'why'],
      [new ContractError(302, 'moved'), 6, 'outcome_unknown', 'moved'],
      [new InterruptedError({ sent: true }), 130, 'interrupted', 'interrupted'],
    ] as const) {
      const error = new OutcomeUnknownError(cause, { idempotencyKey: 'k-1', supportsIdempotency });
      expect(
        describeError(new CallError(error, { ...connection, profile, keySource }), CONTEXT),
      ).toMatchObject({
        exitCode,
        code,
        mayHaveBeenAdded: true,
        message: `api.example.com: outcome unknown (${reason}); the animal may or may not have been added`,
        hint: expect.stringContaining(`check whether the animal was added: ${hint}`),
      });
    }
  },
);

test.each([
  ['https://api.example.com/v1', 'check the base URL https://api.example.com/v1'],
  ['https://api.example.com', 'check the base URL https://api.example.com; it usually ends in /v1'],
])('the hint for an unexpected response of %s: %s', (baseUrl, hint) => {
  const error = new CallError(new ContractError(200, 'not JSON'), { ...connection, baseUrl });
  expect(describeError(error, CONTEXT).hint).toBe(hint);
});

test.each<[string, number, number | undefined, string]>([
  ['a wait that is too long', NOW + 80_000, 80_000, 'try again after this time, or wait with --max-wait 80'],
  ['a wait of an hour', NOW + 3_600_000, 3_600_000, 'try again after this time'],
  ['a wait that would not have helped', NOW + 30_000, undefined, 'try again after this time'],
])('after %s, the hint suggests --max-wait only if it helps', (_name, until, neededMaxWait, hint) => {
  const error = new RateLimitError(until, { response: { reason: 'slow down' }, neededMaxWait });
  const described = describeError(new CallError(error, connection), CONTEXT);
  expect(described.hint).toBe(hint);
  expect(described.until).toBe(new Date(until).toISOString());
  expect(described.message).toMatch(/is rate-limited until .*: slow down$/);
});

test.each([
  ['http://127.0.0.1:7387/v1', 'ECONNREFUSED', 'is the local service running? Start it: pets serve'],
  [
    'http://localhost:8080/v1',
    'ECONNREFUSED',
    'is the local service running? Start it: pets serve --port 8080',
  ],
  ['http://127.0.0.1:7387/v1', 'ECONNRESET', 'check the network'],
  ['https://127.0.0.1:7387/v1', 'ECONNREFUSED', 'check the network'],
  ['http://192.0.2.1:7387/v1', 'ECONNREFUSED', 'check the network'],
])('the hint for %s with %s: %s', (baseUrl, code, hint) => {
  const described = describeError(new CallError(network(code), { ...connection, baseUrl }), CONTEXT);
  expect(described.hint?.startsWith(hint)).toBe(true);
});

test.each([
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'an unknown authority', 'NODE_EXTRA_CA_CERTS'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'an unknown authority', 'NODE_EXTRA_CA_CERTS'],
  ['CERT_HAS_EXPIRED', 'certificate has expired', 'check the network'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'for another host name', 'check the network'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'it does not use https', 'check the network'],
])('a certificate error, %s, is explained', (code, message, hint) => {
  const described = describeError(new CallError(network(code), connection), CONTEXT);
  expect(described.message).toContain(message);
  expect(described.hint).toContain(hint);
});

const proxy = { address: 'http://ada:hunter2@proxy.example.com:3128', variable: 'HTTPS_PROXY' };

test('the hint names the proxy, which may be the cause of the error', () => {
  const error = new CallError(network('ECONNREFUSED'), connection, { proxy });
  expect(describeError(error, CONTEXT).hint).toContain('the proxy proxy.example.com:3128');
});

test.each([
  failure(500, connection.key),
  new ApiFailure(500, { code: 'x', reason: `Bearer ${connection.key}` }),
  new ContractError(200, `the reply is not JSON but ${connection.key}`),
  network(undefined, connection.key),
  new Error(connection.key),
])('the key is masked in every error (%#)', (error) => {
  expect(JSON.stringify(describeError(new CallError(error, connection), CONTEXT))).not.toContain(
    connection.key,
  );
});

test('every exit code has a meaning', () => {
  expect(exitCodeMeanings.map(([code]) => code)).toEqual(Object.values(exitCodes));
});

test('a system error whose code is not known keeps its message', () => {
  expect(systemReason(errno('EXDEV'))).toBe('EXDEV: words');
  expect(systemReason(errno('EISDIR'))).toBe('it is a directory');
});
