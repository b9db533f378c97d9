import { expect, test } from 'vitest';
import { ContractError, LocalError, NetworkError } from '../../src/client/errors.ts';
import { describeFault } from '../../src/client/failures.ts';
import { freshMachine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

const withCode = (code: string | undefined) => Object.assign(new Error('odd'), { code });
const UNKNOWN = 'its certificate is signed by an unknown authority';
const VERSION = 'it does not support any version of TLS that pets accepts';

// The codes are those of Node 20 (OpenSSL 3.0) and Node 24 (OpenSSL 3.5).
test.each<[string | undefined, string, isPermanent: boolean, hint?: string]>([
  [undefined, 'odd', false],
  ['ENOTFOUND', 'host not found', false],
  ['ECONNREFUSED', 'connection refused', false],
  ['UND_ERR_SOCKET', 'connection closed', false],
  ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'the response is incomplete', false],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNKNOWN, true, 'NODE_EXTRA_CA_CERTS'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNKNOWN, true, 'NODE_EXTRA_CA_CERTS'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', UNKNOWN, true, 'NODE_EXTRA_CA_CERTS'],
  ['CERT_HAS_EXPIRED', 'its certificate has expired', true, 'check the clock of this machine'],
  ['CERT_NOT_YET_VALID', 'its certificate is not valid yet', true, 'check the clock of this machine'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'its certificate is for another host name', true],
  ['UND_ERR_PRX_TLS', 'its certificate is for another host name', true],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'it does not use https', true, 'http://'],
  ['EPROTO', 'it does not use https', true, 'http://'],
  ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', VERSION, true, 'TLS 1.2 or newer'],
  ['ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE', 'it refused the TLS connection', true, 'client certificate'],
  ['ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL', 'it supports only HTTP/2', true, 'HTTP/1.1'],
  ['INVALID_CA', 'odd', true],
  ['CRL_HAS_EXPIRED', 'odd', true],
])('%s is a network error: %s (permanent: %s)', (code, message, isPermanent, hint) => {
  const error = describeFault(withCode(code), false);
  expect(error).toBeInstanceOf(NetworkError);
  expect(error).toMatchObject({ message, isPermanent, errno: code, sent: false });
  if (hint === undefined) expect(error.hint).toBeUndefined();
  else expect(error.hint).toContain(hint);
});

test.each<[string, Error, hint: string]>([
  [
    'memory for WebAssembly',
    new RangeError('WebAssembly.Instance(): Out of memory'),
    '--disable-wasm-trap-handler',
  ],
  ['memory', new RangeError('Array buffer allocation failed'), 'ulimit -v'],
  ['memory for the system', withCode('ENOMEM'), 'ulimit -v'],
  ['files', withCode('EMFILE'), 'ulimit -n'],
  ['a bug', new TypeError('x is not a function'), 'this is a bug'],
])('%s: this machine is the cause, and not the network', (_name, cause, hint) => {
  const error = describeFault(cause, true);
  expect(error).toBeInstanceOf(LocalError);
  expect(error).toMatchObject({ code: 'local_error', sent: true, hint: expect.stringContaining(hint) });
});

test('headers that are too large are a response', () => {
  expect(describeFault(withCode('UND_ERR_HEADERS_OVERFLOW'), true)).toBeInstanceOf(ContractError);
});

test.runIf(process.platform === 'linux')(
  'with too little address space, the command fails at once, and says how to help Node',
  async () => {
    const server = await scriptedServer((_, response) => reply(response, 200, []));
    const machine = await freshMachine();
    await machine.saveProfile('prod', { baseUrl: server.url, key: 'pets_key' });
    const { code, stderr } = await machine.shell('ulimit -v 6000000; pets list');
    expect([code, stderr]).toEqual([1, expect.stringContaining('error: not enough memory (')]);
    expect(stderr).toContain('NODE_OPTIONS=--disable-wasm-trap-handler');
    const helped = await machine.shell(
      'ulimit -v 6000000; NODE_OPTIONS=--disable-wasm-trap-handler pets list --json',
    );
    expect(helped).toMatchObject({ code: 0, stdout: '[]\n' });
    expect(server.requests).toHaveLength(1);
  },
);
