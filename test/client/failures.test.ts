import { constants } from 'node:os';
import { expect, test } from 'vitest';
import { ContractError, NetworkError, toAttemptError } from '../../src/client/errors.ts';
import { freshMachine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

const withCode = (code: string | undefined, more: object = {}) =>
  Object.assign(new Error('odd'), { code, ...more });
const refused = withCode('ECONNREFUSED', { errno: -constants.errno.ECONNREFUSED });

// The codes are those of Node 20 (OpenSSL 3.0) and Node 24 (OpenSSL 3.5).
test.each<[string | undefined, Error, string, isPermanent: boolean]>([
  [undefined, withCode(undefined), 'odd', false],
  ['ECONNREFUSED', refused, 'connection refused', false],
  ['ECONNREFUSED', new AggregateError([refused, withCode('ETIMEDOUT')]), 'connection refused', false],
  ['ENOTFOUND', withCode('ENOTFOUND', { syscall: 'getaddrinfo' }), 'host not found (ENOTFOUND)', false],
  [
    'EAI_AGAIN',
    withCode('EAI_AGAIN', { syscall: 'getaddrinfo' }),
    'the name server does not respond (EAI_AGAIN)',
    false,
  ],
  [
    'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
    withCode('UND_ERR_RES_CONTENT_LENGTH_MISMATCH'),
    'the response is incomplete',
    false,
  ],
  ['EPROTO', withCode('EPROTO', { reason: 'wrong version number' }), 'wrong version number', true],
  ...[
    'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    'CERT_HAS_EXPIRED',
    'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE',
    'INVALID_CA',
    // For example, "CA signature digest algorithm too weak".
    'UNSPECIFIED',
  ].map((code): [string, Error, string, boolean] => [code, withCode(code), 'odd', true]),
])('%s is a network error: %s: %s (permanent: %s)', (errno, cause, message, isPermanent) => {
  const error = toAttemptError(cause, false);
  expect(error).toBeInstanceOf(NetworkError);
  expect(error).toMatchObject({ message, isPermanent, errno, sent: false });
  expect(error.hint !== undefined).toBe(isPermanent);
});

test.each<[string, Error]>([
  ['memory for WebAssembly', new RangeError('WebAssembly.Instance(): Out of memory')],
  ['memory for the system', withCode('ENOMEM')],
  ['files', withCode('EMFILE')],
  ['a bug', new TypeError('x is not a function')],
])('%s: this machine is the cause, and not the network', (_name, cause) => {
  const error = toAttemptError(cause, true);
  const hint = expect.stringMatching(/ulimit -v.*ulimit -n.*--disable-wasm-trap-handler.*this is a bug/);
  expect(error).toMatchObject({ code: 'local_error', isPermanent: true, sent: true, hint });
});

test('headers that are too large are a response; other errors of the parser have no code', () => {
  const error = toAttemptError(withCode(undefined, { name: 'HTTPParserError', data: 'SSH' }), true);
  expect(error.hint).toContain('check the port');
  expect(toAttemptError(withCode('UND_ERR_HEADERS_OVERFLOW'), true)).toBeInstanceOf(ContractError);
});

// Node 24 and newer work with so little.
test.runIf(process.platform === 'linux' && Number.parseInt(process.versions.node, 10) < 24)(
  'with too little address space, the command fails at once, and says how to help Node',
  async () => {
    const server = await scriptedServer((_, response) => reply(response, 200, []));
    const machine = await freshMachine();
    await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_key' });
    const { code, stderr } = await machine.shell('ulimit -v 6000000; pets list');
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('error: this machine prevented the request ('),
    ]);
    expect(stderr).toContain('NODE_OPTIONS=--disable-wasm-trap-handler');
    const helped = await machine.shell(
      'ulimit -v 6000000; NODE_OPTIONS=--disable-wasm-trap-handler pets list --json',
    );
    expect(helped).toMatchObject({ code: 0, stdout: '[]\n' });
    expect(server.requests).toHaveLength(1);
  },
);
