import { expect, test } from 'vitest';
import { CallError } from '../../src/cli/call-error.ts';
import { CliError, fileError, systemReason, usageError } from '../../src/cli/cli-error.ts';
import { exitCodeMeanings, exitCodes } from '../../src/cli/exit-codes.ts';
import { explain } from '../../src/cli/explain.ts';
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
const errno = (code: string) => Object.assign(new Error(`${code}: words`), { code });

test.each([
  [usageError('wrong', 'do this'), 2, 'usage', 'wrong', 'do this'],
  [new CliError('none', { code: 'no_key', exitCode: 4 }), 4, 'no_key', 'none', undefined],
  [fileError('read', '/a', errno('EACCES')), 1, 'file_error', 'cannot read /a: permission denied', undefined],
  [new StoreError('damaged', 'restore it'), 1, 'store_error', 'damaged', 'restore it'],
  [new InterruptedError(), 130, 'interrupted', 'interrupted', undefined],
  [new OutputError(errno('ENOSPC')), 1, 'output_error', 'cannot write the output', undefined],
  [failure(400), 1, 'a_code', 'api.example.com: why', undefined],
  [failure(401), 4, 'a_code', 'rejected the key (key …k2mX from profile staging)', '--profile staging'],
  [failure(403), 4, 'a_code', 'rejected the key', '--profile staging'],
  [failure(404), 3, 'a_code', 'why', undefined],
  [failure(409), 1, 'a_code', 'why', undefined],
  [failure(422), 1, 'a_code', 'why', undefined],
  [failure(500), 7, 'a_code', 'why', 'try again'],
  [new ApiFailure(502, undefined), 7, 'http_502', 'the service answered 502', 'try again'],
  [new RateLimitError(0, undefined), 5, 'rate_limited', 'until 1970-01-01T00:00:00Z', '--max-wait'],
  [new RateLimitError(Number.MAX_VALUE, undefined), 5, 'rate_limited', 'beyond every calendar', '--max-wait'],
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
    const explanation = explain(new CallError(error, connection));
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
      expect(explain(new CallError(error, { ...connection, profile, keySource }))).toMatchObject({
        exitCode,
        code,
        message: `api.example.com: the outcome is unknown (${reason}): the animal may have been added`,
        hint: expect.stringContaining(`look first: ${hint}`),
      });
    }
  },
);

test('the local service that is down is started, not looked for', () => {
  const { hint } = explain(new CallError(network('ECONNREFUSED'), { ...connection, profile: 'local' }));
  expect(hint).toBe('start the local service: pets serve');
});

test.each([
  failure(500, connection.key),
  new ApiFailure(500, { code: 'x', message: `Bearer ${connection.key}`, status: 500 }),
  new ContractError(200, `the reply is not JSON but ${connection.key}`),
  network(undefined, connection.key),
  new Error(connection.key),
])('the key is masked wherever it stands (%#)', (error) => {
  expect(JSON.stringify(explain(new CallError(error, connection)))).not.toContain(connection.key);
});

test('every exit code has a meaning', () => {
  expect(exitCodeMeanings.map(([code]) => code)).toEqual(Object.values(exitCodes));
});

test('a system error that has no words of ours keeps its own', () => {
  expect(systemReason(errno('EXDEV'))).toBe('EXDEV: words');
  expect(systemReason(errno('EISDIR'))).toBe('it is a directory');
});
