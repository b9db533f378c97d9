import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine } from '../helpers/pets.ts';
import { hasProxy, nginxServer, startProxy } from '../helpers/real-proxies.ts';
import { AUTHORITY, TLS_DIRECTORY } from '../helpers/tls-server.ts';

// These tests run `pets login` with nginx servers that do not accept its connections or requests.

const ENV = { NODE_EXTRA_CA_CERTS: AUTHORITY };
const CERTIFICATE = `
  ssl_certificate ${join(TLS_DIRECTORY, 'localhost.pem')};
  ssl_certificate_key ${join(TLS_DIRECTORY, 'server.key')};`;

/** Logs in with this base URL. Returns the exit code and the error. */
async function login(baseUrl: string) {
  const machine = await freshMachine();
  const args = ['login', '--base-url', baseUrl, '--json'];
  const { code, stderr } = await machine.command(args, { env: ENV, stdin: 'pets_secret_key' });
  return { code, error: JSON.parse(stderr).error };
}

const startNginx = (directives: (port: number) => string) => startProxy('nginx', nginxServer(directives));

describe.skipIf(!hasProxy('nginx'))('nginx', () => {
  test.each([
    [
      'a client certificate is required',
      `ssl_verify_client on; ssl_client_certificate ${AUTHORITY};`,
      'https',
      7,
      'No required SSL certificate was sent',
      '--debug',
    ],
    [
      'plain http is sent to a TLS port',
      '',
      'http',
      7,
      'The plain HTTP request was sent to HTTPS port',
      '--debug',
    ],
    [
      'only old versions of TLS are supported',
      'ssl_protocols TLSv1 TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0;',
      'https',
      6,
      'it does not support any version of TLS that pets accepts',
      'must support TLS 1.2 or newer',
    ],
  ])('%s', async (_name, directives, scheme, exitCode, message, hint) => {
    const port = await startNginx(
      (free) => `listen 127.0.0.1:${free} ssl; ${CERTIFICATE} ${directives} return 200 '[]';`,
    );
    const { code, error } = await login(`${scheme}://localhost:${port}/v1`);
    expect([code, error.message, error.hint]).toEqual([
      exitCode,
      expect.stringContaining(message),
      expect.stringContaining(hint),
    ]);
  });

  test('https to a port for plain http', async () => {
    const port = await startNginx((free) => `listen 127.0.0.1:${free}; return 200 '[]';`);
    const { code, error } = await login(`https://localhost:${port}/v1`);
    expect([code, error.message]).toEqual([6, `cannot reach localhost:${port}: it does not use https`]);
    expect(error.hint).toContain('begin its base URL with http://');
  });
});
