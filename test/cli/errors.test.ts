import { expect, test } from 'vitest';
import { CliError, fileError, toCliError, usageError } from '../../src/cli/core/errors.ts';
import { exitCodeMeanings, exitCodes } from '../../src/cli/core/exit-codes.ts';
import { callError } from '../../src/cli/errors/call-error.ts';
import type { Connection, ProxySetting } from '../../src/cli/profiles/profile.ts';
import {
  ApiFailure,
  ContractError,
  LocalError,
  OutcomeUnknownError,
  ProxyError,
  RateLimitError,
  TimeoutError,
} from '../../src/client/errors.ts';
import { describeFault } from '../../src/client/failures.ts';
import { StoreError } from '../../src/store/errors.ts';
import { InterruptedError } from '../../src/system/interrupted-error.ts';
import { runInTerminal } from '../helpers/context.ts';
import { closedPort } from '../helpers/listen.ts';

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
const explain = (error: unknown, change: Partial<Connection> = {}, proxy?: ProxySetting) =>
  toCliError(callError(error, { connection: { ...connection, ...change }, proxy, ...CONTEXT }));

const failure = (status: number, code = 'a_code') => new ApiFailure(status, 'why', code);
const page = (status: number) => new ApiFailure(status, `HTTP status ${status}`);
const limited = (delay: number, response?: ConstructorParameters<typeof RateLimitError>[1]) =>
  new RateLimitError(NOW + delay, response);
const network = (code: string | undefined) => describeFault(Object.assign(new Error('odd'), { code }), true);
const errno = (code: string) => Object.assign(new Error(`${code}: words`), { code });

const API = 'api.example.com';
const REJECTED = `${API} rejected key …k2mX from profile staging: `;
const [USED_UP, AFTER] = [`no request is sent to ${API}`, 'try again after this time'];

test.each<[unknown, number, string, message: string, hint: string | undefined, baseUrl?: string]>([
  [usageError('wrong', 'do this'), 2, 'usage', 'wrong', 'do this'],
  [new CliError('none', { code: 'no_key' }), 4, 'no_key', 'none', undefined],
  [fileError('read', '/a', errno('EACCES')), 1, 'file_error', 'cannot read /a: permission denied', undefined],
  [fileError('read', '/a', errno('EXDEV')), 1, 'file_error', 'cannot read /a: EXDEV: words', undefined],
  [new StoreError('damaged', 'restore it'), 1, 'store_error', 'damaged', 'restore it'],
  [new InterruptedError(), 130, 'interrupted', 'interrupted', undefined],
  [failure(400), 1, 'a_code', `${API}: why`, '--debug'],
  [failure(401), 4, 'a_code', `${REJECTED}why`, 'pets login --profile staging'],
  [failure(403), 1, 'a_code', `${API}: why`, 'use a key that is allowed to do this'],
  [page(403), 1, 'http_403', `${API}: HTTP status 403`, 'use a key that is allowed to do this'],
  [page(400), 7, 'http_400', `${API}: HTTP status 400`, '--debug'],
  [failure(408), 1, 'a_code', 'why', 'try again later'],
  [failure(404), 3, 'a_code', 'why', HTTPS],
  [failure(422, 'idempotency_mismatch'), 1, 'idempotency_mismatch', 'why', 'another --idempotency-key'],
  [failure(500), 7, 'a_code', 'why', 'try again'],
  [
    limited(30_000),
    5,
    'rate_limited',
    `${USED_UP} until 12:00:30 UTC (in 30 s): according to an earlier response, the rate limit is used up`,
    `${AFTER}, or wait with --max-wait 30; to ask the service whether the limit has ended earlier: pets profiles --check`,
  ],
  [
    limited(30_000, { code: 'key_banned', reason: 'stop' }),
    5,
    'key_banned',
    `${API} has banned this key until 12:00:30 UTC (in 30 s): stop`,
    `${AFTER}, or wait with --max-wait 30`,
  ],
  [limited(3_600_000), 5, 'rate_limited', USED_UP, `${AFTER}; to ask the service`],
  [
    limited(Number.MAX_VALUE),
    5,
    'rate_limited',
    `${USED_UP}: according to an earlier response, the rate limit is used up`,
    'try again later',
  ],
  [new TimeoutError('no response', { sent: true }), 6, 'timeout', 'no response', '--timeout or --max-time'],
  [new LocalError('no memory', { sent: false, hint: 'get more' }), 1, 'local_error', 'no memory', 'get more'],
  [new ContractError(200, 'not JSON'), 7, 'contract_error', 'not JSON', `check the base URL ${HTTPS}`],
  [new ContractError(200, ''), 7, 'contract_error', '', `${LOCAL}/; it usually ends in /v1`, `${LOCAL}/`],
  [new Error('oops'), 1, 'internal_error', 'unexpected error: oops', '--debug'],
  [undefined, 1, 'internal_error', 'unexpected', '--debug'],
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
const LOGIN = { keySource: 'this login' } as const;
const at = (baseUrl: string) => ({ baseUrl });

// test/client/failures.test.ts has all causes.
test.each<[string | undefined, reason: string, hint: string, Partial<Connection>?]>([
  [undefined, 'odd', CHECK],
  ['ENOTFOUND', 'odd', `${CHECK}${HTTPS}; nothing was saved`, LOGIN],
  ['ECONNREFUSED', 'odd', CHECK],
  ['ECONNREFUSED', 'odd', START, at(LOCAL)],
  ['ECONNREFUSED', 'odd', `${START} --port 8080`, at('http://localhost:8080/v1')],
  ['ECONNREFUSED', 'odd', CHECK, at('https://127.0.0.1:7387/v1')],
  ['ECONNREFUSED', 'odd', CHECK, at('http://192.0.2.1:7387/v1')],
  ['CERT_HAS_EXPIRED', 'odd', 'the clock of this machine', LOGIN],
])('%s: %s, and the hint %j (%o)', (code, reason, hint, change = {}) => {
  const { baseUrl = HTTPS } = change;
  const message = `cannot reach ${new URL(baseUrl).host}: ${reason}`;
  const described = explain(network(code), change);
  expect(described).toMatchObject({ exitCode: 6, code: 'network_error', message });
  expect(described.hint).toContain(hint);
  if (hint === CHECK) expect(described.hint).toContain(CHECK + baseUrl);
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
    hint: 'set PETS_API_KEY to a valid key, or unset it to use the saved key of a profile',
  });
});

const proxy = { address: 'http://ada:hunter2@proxy.example.com:3128', variable: 'HTTPS_PROXY' };

test('the hint names the proxy, which may be the cause of the error', () => {
  expect(explain(network('ECONNREFUSED'), {}, proxy).hint).toContain('the proxy proxy.example.com:3128');
});

test('a refusal by a proxy names the proxy without its user and password', () => {
  const { message, hint, ...error } = explain(new ProxyError('why (407)', {}), {}, proxy);
  expect(error).toMatchObject({ exitCode: 6, code: 'network_error' });
  expect(message).toBe(`the proxy proxy.example.com:3128 did not connect to ${API}: why (407)`);
  expect(hint).toContain(
    'check HTTPS_PROXY (a user and password go in http://USER:PASSWORD@proxy.example.com:3128',
  );
  expect(hint).toContain(`to connect without a proxy, add ${API} to NO_PROXY`);
});

test('every exit code has a meaning', () => {
  expect(exitCodeMeanings.map(([code]) => code)).toEqual(Object.values(exitCodes));
});

test.each(['ALL_PROXY', 'all_proxy'])('%s is named as not supported, without its password', async (name) => {
  const env = {
    PETS_BASE_URL: `http://0.0.0.0:${await closedPort()}/v1`,
    PETS_API_KEY: 'pets_key',
    PETS_ALLOW_HTTP: '1',
    [name]: 'socks5://ada:hunter2@proxy.invalid',
  };
  const { code, stderr } = await runInTerminal(['list'], { env });
  const hint = `; ${name} is not supported: set HTTPS_PROXY or HTTP_PROXY instead`;
  expect([code, stderr]).toEqual([6, expect.stringContaining(hint)]);
  expect(stderr).not.toContain('hunter2');
});
