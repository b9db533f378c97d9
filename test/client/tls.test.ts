import { expect, test } from 'vitest';
import { NetworkError } from '../../src/client/errors.ts';
import { add, rejection, testClient } from '../helpers/client.ts';
import { freshMachine } from '../helpers/pets.ts';
import { proxyServer } from '../helpers/proxy.ts';
import { AUTHORITY, type Certificate, tlsServer } from '../helpers/tls-server.ts';
import { rawServer } from '../helpers/wire-server.ts';

const KEY = 'pets_secret_key';
const ADD = ['add', 'Rex', '--category', '3', '--json'];

/** Runs the built command, which trusts the test authority only with NODE_EXTRA_CA_CERTS. */
async function run(baseUrl: string, args: string[], env: Record<string, string> = {}) {
  const machine = await freshMachine();
  return machine.command(args, { env: { PETS_BASE_URL: baseUrl, PETS_API_KEY: KEY, ...env } });
}

const TRUSTED = { NODE_EXTRA_CA_CERTS: AUTHORITY };

test.each<[string, Certificate, Record<string, string>, reason: RegExp, hint: RegExp]>([
  ['of an unknown authority', 'localhost', {}, /unable to verify/, /^to trust .* NODE_EXTRA_CA_CERTS/],
  ['expired', 'expired', TRUSTED, /expired/, /^check the clock/],
  [
    'for another host',
    'other-host',
    TRUSTED,
    /not in the cert's altnames: DNS:/,
    /^use a host name of the certificate/,
  ],
  [
    'self-signed, with a trusted authority',
    'self-signed',
    TRUSTED,
    /self-signed certificate/,
    /^to trust .* NODE_EXTRA_CA_CERTS/,
  ],
])(
  'an invalid certificate: nothing is sent, and there is no retry: %s',
  async (_name, certificate, env, reason, hint) => {
    const server = await tlsServer(certificate);
    const { code, stdout, stderr } = await run(`https://localhost:${server.port}/v1`, ADD, env);
    expect([code, stdout]).toEqual([6, '']);
    const { error } = JSON.parse(stderr);
    expect(error).toMatchObject({ code: 'network_error', message: expect.stringMatching(reason) });
    expect(error.hint).toMatch(hint);
    expect(server.requests).toEqual([]);
    expect(server.connections()).toBe(1);
  },
);

test('a server that does not use TLS: there is no retry, and the key is not sent', async () => {
  const received: string[] = [];
  const server = await rawServer((socket) => {
    socket.once('data', (chunk) => {
      received.push(chunk.toString('latin1'));
      socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
    });
  });
  const baseUrl = server.url.replace('http:', 'https:');
  const { client, attempts } = testClient(baseUrl);
  const failure = await rejection(add(client));
  expect(failure).toBeInstanceOf(NetworkError);
  expect(failure).toMatchObject({ sent: false });
  expect(attempts).toHaveLength(1);
  expect((await run(baseUrl, ADD)).stderr).toContain('the service does not use https at this port');
  expect(received.join('')).not.toContain('pets_key');
});

test('through a proxy: the proxy sees neither the key nor the path', async () => {
  const server = await tlsServer('other-host');
  const proxy = await proxyServer(server.port);
  const { code, stdout } = await run('https://shop.example/v1', ['list', '--json'], {
    ...TRUSTED,
    HTTPS_PROXY: proxy.url,
  });
  expect([code, stdout]).toEqual([0, '[]\n']);
  expect(proxy.requests).toEqual(['CONNECT shop.example:443']);
  expect(JSON.stringify(proxy.headers)).not.toContain(KEY);
  expect(proxy.tunnelled().length).toBeGreaterThan(100);
  for (const secret of [KEY, 'Bearer', '/v1/pets']) expect(proxy.tunnelled()).not.toContain(secret);
  expect(server.authorizations).toEqual([`Bearer ${KEY}`]);
});
