import { expect, test } from 'vitest';
import { callError, type FailedCall } from '../../src/cli/connection/call-error.ts';
import { fileError, toCliError, usageError } from '../../src/cli/core/errors.ts';
import { exitCodeMeanings, exitCodes } from '../../src/cli/core/exit-codes.ts';
import type { Connection } from '../../src/cli/profiles/profile.ts';
import {
  ApiFailure,
  ContractError,
  NetworkError,
  OutcomeUnknownError,
  RateLimitError,
  toAttemptError,
} from '../../src/client/errors.ts';
import { StoreError } from '../../src/store/errors.ts';
import { InterruptedError } from '../../src/system/clock.ts';

const HTTPS = 'https://api.example.com/v1';
const LOCAL = 'http://127.0.0.1:7387/v1';
const connection: Connection = {
  profile: 'staging',
  baseUrl: HTTPS,
  key: 'pets_secret_k2mX',
  keySource: 'profile staging',
};
const NOW = Date.parse('2026-11-20T12:00:00Z');
const CONTEXT = { now: NOW, platform: 'linux', timeZone: 'UTC', listCommand: 'pets list' } as const;

/** What is printed about an error of a request that used this connection. */
const explain = (error: unknown, change: Partial<Connection> = {}, call: Partial<FailedCall> = {}) =>
  toCliError(
    callError(error, { connection: { ...connection, ...change }, canWait: true, ...CONTEXT, ...call }),
  );

const failure = (status: number, code = 'a_code') => new ApiFailure(status, 'why', code);
const page = (status: number) => new ApiFailure(status, `HTTP status ${status}`);
const limited = (delay: number, response?: ConstructorParameters<typeof RateLimitError>[1]) =>
  new RateLimitError(NOW + delay, response);
const network = (code?: string, sent = true) =>
  toAttemptError(Object.assign(new Error('odd'), { code }), sent);
const timeout = new NetworkError('no response', { code: 'timeout', sent: false });
const noMemory = new NetworkError('no memory', { code: 'local_error', sent: false, hint: 'get more' });
const errno = (code: string) => Object.assign(new Error(`${code}: words`), { code });

const API = 'api.example.com';
const REJECTED = `${API} rejected key …k2mX from profile staging: `;
const [USED_UP, AFTER] = [`pets sends no request to ${API}`, 'try again after this time'];

test.each<[unknown, number, string, message: string, hint: string | undefined, baseUrl?: string]>([
  [usageError('wrong', 'do this'), 2, 'usage', 'wrong', 'do this'],
  [fileError('read', '/a', errno('EACCES')), 1, 'file_error', 'cannot read /a: permission denied', undefined],
  [Object.assign(errno('EIO'), { syscall: 'read' }), 1, 'file_error', 'EIO: words', '--debug'],
  [new StoreError('damaged', 'restore it'), 1, 'store_error', 'damaged', 'restore it'],
  [new InterruptedError(), 130, 'interrupted', 'interrupted', undefined],
  [failure(400), 1, 'a_code', `${API}: why`, '--debug'],
  [failure(401), 4, 'a_code', `${REJECTED}why`, 'pets login --profile staging'],
  [page(400), 7, 'http_400', `${API}: HTTP status 400`, '--debug'],
  [page(400), 7, 'http_400', 'HTTP status 400', 'it may have to begin with https://', LOCAL],
  [page(401), 4, 'http_401', `${API}: HTTP status 401`, 'another server asks for a user and password'],
  [failure(408), 1, 'a_code', 'why', 'try again later'],
  [failure(404), 3, 'a_code', 'why', HTTPS],
  [failure(500), 7, 'a_code', 'why', 'try again'],
  [
    limited(30_000),
    5,
    'rate_limited',
    `${USED_UP} until 12:00:30 UTC (in 30 s): according to an earlier response, the rate limit is used up`,
    `${AFTER}; for a saved key, pets profiles --check asks the service at most once a minute whether the limit has ended earlier`,
  ],
  [
    limited(30_000, { code: 'key_banned', reason: 'stop' }),
    5,
    'key_banned',
    `${API} has banned this key until 12:00:30 UTC (in 30 s): stop`,
    `${AFTER}, or allow a longer wait with --max-wait (and --max-time, if used)`,
  ],
  [
    limited(Number.MAX_VALUE),
    5,
    'rate_limited',
    `${USED_UP}: according to an earlier response, the rate limit is used up`,
    AFTER,
  ],
  [timeout, 6, 'timeout', `${API}: no response`, '--timeout or --max-time'],
  [noMemory, 1, 'local_error', 'no memory', 'get more'],
  [new ContractError(200, 'not JSON'), 7, 'contract_error', 'not JSON', `check the base URL ${HTTPS}`],
  [new ContractError(200, ''), 7, 'contract_error', '', `${LOCAL}/; it usually ends in /v1`, `${LOCAL}/`],
  [new ContractError(404, ''), 7, 'contract_error', '', `try the base URL ${LOCAL}`, `${LOCAL}/pets`],
  [new Error('oops'), 1, 'internal_error', 'unexpected error: oops', '--debug'],
])('%s: exit code %i, error code %s, message %j, hint %j', (error, exit, code, message, hint, baseUrl) => {
  const described = explain(error, baseUrl === undefined ? {} : { baseUrl });
  expect(described).toMatchObject({ exitCode: exit, code, message: expect.stringContaining(message) });
  if (hint === undefined) expect(described.hint).toBeUndefined();
  else expect(described.hint).toContain(hint);
  const { until } = described.fields;
  if (until) expect(until).toBe(new Date((error as RateLimitError).until).toISOString());
});

const CHECK = 'check the network and the base URL ';
const START = 'start the local service: pets serve';
const at = (baseUrl: string) => ({ baseUrl });

// test/client/failures.test.ts has all causes.
test.each<[string | undefined, start: string, hint: string, Partial<Connection>?]>([
  [undefined, 'cannot reach ', CHECK],
  ['ECONNREFUSED', 'cannot reach ', START, at(LOCAL)],
  ['ECONNREFUSED', 'cannot reach ', `${START} --port 8080`, at('http://localhost:8080/v1')],
  ['ECONNREFUSED', 'cannot reach ', CHECK, at('http://192.0.2.1:7387/v1')],
  ['CERT_HAS_EXPIRED', 'cannot reach ', 'the clock of this machine'],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', 'cannot reach ', 'TLS 1.2'],
  ['HPE_INVALID_CONSTANT', '', 'begin with https://'],
  ['ECONNRESET', '', `try again later, or check the base URL ${HTTPS}`],
])('%s: %s, and the hint %j (%o)', (code, start, hint, change = {}) => {
  const { baseUrl = HTTPS } = change;
  const message = `${start}${new URL(baseUrl).host}: odd`;
  const described = explain(network(code, start === ''), change);
  expect(described).toMatchObject({ exitCode: 6, code: 'network_error', message });
  expect(described.hint).toContain(hint);
  if (hint === CHECK) expect(described.hint).toContain(CHECK + baseUrl);
  const proxied = explain(network(code, start === ''), change, { proxyVariable: 'HTTPS_PROXY' });
  if (!hint.startsWith(START)) expect(proxied.hint).toContain(' the proxy in HTTPS_PROXY');
});

test.each([
  [true, 'to retry without adding it twice, run the same command within 24 hours with --idempotency-key k-1'],
  [false, 'add it again only if it is missing'],
] as const)('an unknown outcome (idempotency: %s)', (supportsIdempotency, hint) => {
  for (const [cause, exitCode, code, reason] of [
    [network('ECONNRESET'), 6, 'outcome_unknown', 'odd'],
    [failure(503), 6, 'outcome_unknown', 'why'],
    [new InterruptedError(), 130, 'interrupted', 'interrupted'],
  ] as const) {
    const error = new OutcomeUnknownError(cause, { idempotencyKey: 'k-1', supportsIdempotency });
    expect(explain(error)).toMatchObject({
      exitCode,
      code,
      fields: { mayHaveBeenAdded: true },
      message: `api.example.com: outcome unknown (${reason}); the animal may or may not have been added`,
      hint: expect.stringContaining(`check whether the animal was added: pets list --all; ${hint}`),
    });
  }
});

test('a rejected key from PETS_API_KEY', () => {
  expect(explain(failure(401), { keySource: 'PETS_API_KEY' })).toMatchObject({
    message: `${API} rejected key …k2mX from PETS_API_KEY: why`,
    hint: 'set PETS_API_KEY to a valid key, or use the saved key of a profile: --profile <name>',
  });
});

test('every exit code has a meaning', () => {
  expect(exitCodeMeanings.map(([code]) => code)).toEqual(Object.values(exitCodes));
});
