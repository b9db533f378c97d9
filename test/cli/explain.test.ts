import { expect, test } from 'vitest';
import { CliError, fileError, systemReason, usageError } from '../../src/cli/errors/cli-error.ts';
import { exitCodeMeanings, exitCodes } from '../../src/cli/errors/exit-codes.ts';
import { CallError } from '../../src/cli/explain/call-error.ts';
import { explain } from '../../src/cli/explain/explain.ts';
import { OutputError } from '../../src/cli/output/console.ts';
import type { Connection } from '../../src/cli/profiles/resolve.ts';
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
const failure = (status: number, code = 'a_code') => new ApiFailure(status, { code, message: 'why', status });
const network = (code: string | undefined, message = 'odd') =>
  new NetworkError(message, { code, sent: true });
const NOW = Date.parse('2026-11-20T12:00:00Z');
const errno = (code: string) => Object.assign(new Error(`${code}: words`), { code });

test.each([
  [usageError('wrong', 'do this'), 2, 'usage', 'wrong', 'do this'],
  [new CliError('none', { code: 'no_key' }), 4, 'no_key', 'none', undefined],
  [fileError('read', '/a', errno('EACCES')), 1, 'file_error', 'cannot read /a: permission denied', undefined],
  [new StoreError('damaged', 'restore it'), 1, 'store_error', 'damaged', 'restore it'],
  [new InterruptedError(), 130, 'interrupted', 'interrupted', undefined],
  [new OutputError(errno('ENOSPC')), 1, 'output_error', 'cannot write the output', 'make room'],
  [failure(400), 1, 'a_code', 'api.example.com: why', '--debug'],
  [
    failure(401),
    4,
    'a_code',
    'api.example.com rejected key …k2mX from profile staging: why',
    'pets login --profile staging',
  ],
  [failure(403), 4, 'a_code', 'rejected key …k2mX', '--profile staging'],
  [failure(404), 3, 'a_code', 'why', connection.baseUrl],
  [failure(409), 1, 'a_code', 'why', '--debug'],
  [failure(422), 1, 'a_code', 'why', '--debug'],
  [failure(422, 'idempotency_mismatch'), 1, 'idempotency_mismatch', 'why', 'another --idempotency-key'],
  [failure(500), 7, 'a_code', 'why', 'try again'],
  [new ApiFailure(502, undefined), 7, 'http_502', 'the service answered 502', 'try again'],
  [
    new RateLimitError(NOW + 30_000),
    5,
    'rate_limited',
    'until 12:00:30 UTC (in 30 s)',
    'or let it wait: --max-wait 34; pets profiles --check asks the service anew',
  ],
  [
    new RateLimitError(NOW + 30_000, { error: { code: 'key_banned', message: 'stop', status: 429 } }),
    5,
    'key_banned',
    'stop',
    'try again then, or let it wait: --max-wait 34',
  ],
  [new RateLimitError(NOW + 43_200_000), 5, 'rate_limited', '2026-11-21 00:00:00 UTC (in 12 h)', 'try again'],
  [new RateLimitError(0), 5, 'rate_limited', 'until 1970-01-01 00:00:00 UTC', 'try again then'],
  [new RateLimitError(Number.MAX_VALUE), 5, 'rate_limited', 'beyond every calendar', 'try again then'],
  [new TimeoutError(200, { sent: true }), 6, 'timeout', 'no answer within 0.2 s', '--timeout'],
  [
    network('ECONNREFUSED'),
    6,
    'network_error',
    'api.example.com: the connection was refused',
    'right address',
  ],
  [network('ENOTFOUND'), 6, 'network_error', 'there is no such host', 'right address'],
  [network(undefined), 6, 'network_error', 'odd', 'right address'],
  [new ContractError(200, 'not JSON'), 7, 'contract_error', 'api.example.com: not JSON', connection.baseUrl],
  [new Error('oops'), 1, 'internal_error', 'unexpected: oops', '--debug'],
  ['text', 1, 'internal_error', 'unexpected: text', '--debug'],
  [undefined, 1, 'internal_error', 'unexpected', '--debug'],
] as [unknown, number, string, string, string | undefined][])(
  '%s is exit %i, %s',
  (error, exit, code, says, hint) => {
    const explanation = explain(new CallError(error, connection), NOW);
    expect(explanation).toMatchObject({ exitCode: exit, code, message: expect.stringContaining(says) });
    if (hint === undefined) expect(explanation.hint).toBeUndefined();
    else expect(explanation.hint).toContain(hint);
  },
);

test.each([
  [
    true,
    'staging',
    'profile staging',
    'pets list --all --profile staging. Then repeat the same command with --idempotency-key k-1:',
  ],
  [
    false,
    'staging',
    'profile staging',
    'pets list --all --profile staging. Then add it again only where it is missing',
  ],
  [false, 'prod', 'PETS_API_KEY', 'pets list --all. Then add it again only where it is missing'],
] as const)(
  'an unknown outcome (honoured: %s, %s, key of %s) says where to look first',
  (honoured, profile, keySource, hint) => {
    for (const [cause, exitCode, code, reason] of [
      [network('ECONNRESET'), 6, 'outcome_unknown', 'the connection was cut'],
      [new TimeoutError(200, { sent: true }), 6, 'outcome_unknown', 'no answer within 0.2 s'],
      [failure(503), 6, 'outcome_unknown', 'why'],
      [new ContractError(200, 'not JSON'), 7, 'contract_error', 'not JSON'],
      [new InterruptedError({ sent: true }), 130, 'interrupted', 'interrupted'],
    ] as const) {
      const error = new OutcomeUnknownError(cause, { idempotencyKey: 'k-1', honoured });
      expect(explain(new CallError(error, { ...connection, profile, keySource }), NOW)).toMatchObject({
        exitCode,
        code,
        message: `api.example.com: the outcome is unknown (${reason}): the animal may have been added`,
        hint: expect.stringContaining(`look first: ${hint}`),
      });
    }
  },
);

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
])('%s with %s: %s', (baseUrl, code, hint) => {
  const told = explain(new CallError(network(code), { ...connection, baseUrl }), NOW);
  expect(told.hint?.startsWith(hint)).toBe(true);
});

test.each([
  [
    'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
    'an authority that is not known here',
    'NODE_EXTRA_CA_CERTS=<file.pem>',
  ],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'an authority that is not known here', 'NODE_EXTRA_CA_CERTS=<file.pem>'],
  ['CERT_HAS_EXPIRED', 'its certificate has expired', 'right address'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'for another name', 'right address'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'it does not speak https', 'right address'],
])('a certificate: %s', (code, says, hint) => {
  const told = explain(new CallError(network(code), connection), NOW);
  expect(told.message).toContain(says);
  expect(told.hint).toContain(hint);
});

test('a proxy that the environment names is named, as it may be what fails', () => {
  const error = new CallError(network('ECONNREFUSED'), connection, { proxy: 'proxy.example.com:3128' });
  expect(explain(error, NOW).hint).toContain('the proxy proxy.example.com:3128');
});

test.each([
  ['PETS_API_KEY', 'prod', 'set PETS_API_KEY to a valid key'],
  ['this login', 'prod', 'nothing was saved'],
  ['profile local', 'local', 'pets serve'],
] as const)('a rejected key from %s', (keySource, profile, hint) => {
  const told = explain(new CallError(failure(401), { ...connection, keySource, profile }), NOW);
  expect(told.hint).toContain(hint);
});

test.each([
  failure(500, connection.key),
  new ApiFailure(500, { code: 'x', message: `Bearer ${connection.key}`, status: 500 }),
  new ContractError(200, `the reply is not JSON but ${connection.key}`),
  network(undefined, connection.key),
  new Error(connection.key),
])('the key is masked wherever it stands (%#)', (error) => {
  expect(JSON.stringify(explain(new CallError(error, connection), NOW))).not.toContain(connection.key);
});

test('every exit code has a meaning', () => {
  expect(exitCodeMeanings.map(([code]) => code)).toEqual(Object.values(exitCodes));
});

test('a system error that has no words of ours keeps its own', () => {
  expect(systemReason(errno('EXDEV'))).toBe('EXDEV: words');
  expect(systemReason(errno('EISDIR'))).toBe('it is a directory');
});
