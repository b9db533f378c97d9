import { join } from 'node:path';
import { expect } from 'vitest';
import { freshMachine, serve } from '../helpers/pets.ts';
import { nginxServer, startProxy } from '../helpers/real-proxies.ts';
import { testIfInstalled } from '../helpers/skip.ts';
import { AUTHORITY, TLS_DIRECTORY } from '../helpers/tls-server.ts';

// These tests run the command and the service with proxies of other projects between them.

// three-servers.postgres.test.ts has nginx and HAProxy in front of servers.
testIfInstalled('tinyproxy')('list, add and get work through tinyproxy with a password', async () => {
  // The command never uses a proxy for loopback addresses. 0.0.0.0 is not one of them, but also reaches this machine.
  const service = await serve(await freshMachine(), ['--ephemeral', '--seed', '--allow-host', '0.0.0.0']);
  const baseUrl = service.url.replace('127.0.0.1', '0.0.0.0');
  const port = await startProxy(
    'tinyproxy',
    (port) => `Port ${port}\nListen 127.0.0.1\nBasicAuth ada hunter2\n`,
  );
  const env = { http_proxy: `http://ada:hunter2@127.0.0.1:${port}`, PETS_ALLOW_HTTP: '1' };
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl, key: service.key });
  const json = async (...args: string[]) => {
    const ran = await machine.pets([...args, '--json'], { env });
    expect(ran).toMatchObject({ code: 0 });
    return JSON.parse(ran.stdout);
  };
  expect(await json('list', '--all')).toHaveLength(66);
  const { id } = await json('add', 'Rex', '--category', '3');
  expect(await json('get', String(id))).toMatchObject({ name: 'Rex' });
});

const OLD_TLS = `
  ssl_certificate ${join(TLS_DIRECTORY, 'localhost.pem')};
  ssl_certificate_key ${join(TLS_DIRECTORY, 'server.key')};
  ssl_protocols TLSv1 TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0;`;

testIfInstalled('nginx').each<[about: string, directives: string, error: RegExp]>([
  ['supports only old versions of TLS', OLD_TLS, /protocol version.*TLS 1\.2 or newer/],
  ['gets https at a port for plain http', '', /wrong version number.*does not use https at this port/],
])('the error of pets login says what to do if nginx %s', async (_about, directives, expected) => {
  const server = nginxServer(
    (port) => `listen 127.0.0.1:${port}${directives && ' ssl'}; ${directives} return 200 '[]';`,
  );
  const port = await startProxy('nginx', server);
  const args = ['login', '--base-url', `https://localhost:${port}/v1`, '--json'];
  const options = { env: { NODE_EXTRA_CA_CERTS: AUTHORITY }, stdin: 'pets_secret_key' };
  const { code, stderr } = await (await freshMachine()).command(args, options);
  expect([code, stderr]).toEqual([6, expect.stringMatching(expected)]);
});
