import { expect, test } from 'vitest';
import { ApiFailure, OutcomeUnknownError } from '../../src/client/errors.ts';
import { add, KEY, list, PET, rejection, testClient } from '../helpers/client.ts';
import { runInTerminal } from '../helpers/context.ts';
import { closedPort } from '../helpers/listen.ts';
import { proxyServer } from '../helpers/proxy.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { rawServer } from '../helpers/wire-server.ts';

const SHOP = 'http://shop.invalid/v1';
const SECURE_SHOP = 'https://shop.invalid/v1';

test('a proxy for http gets requests with an absolute URL, and the user name and password of its own URL', async () => {
  const server = await scriptedServer((request, response) =>
    request.method === 'GET' ? reply(response, 200, [PET]) : reply(response, 201, PET),
  );
  const proxy = await proxyServer(Number(new URL(server.origin).port));
  const address = proxy.url.replace('//', '//ada:hunter2@');
  const { client, attempts } = testClient(SHOP, { proxy: address });
  expect(await list(client)).toMatchObject({ value: [{ id: 1n }] });
  await add(client);
  expect(proxy.requests).toEqual(['GET http://shop.invalid/v1/pets', 'POST http://shop.invalid/v1/pets']);
  expect(proxy.headers.map(({ host }) => host)).toEqual(['shop.invalid', 'shop.invalid']);
  const basic = `Basic ${Buffer.from('ada:hunter2').toString('base64')}`;
  expect(proxy.headers[0]?.['proxy-authorization']).toBe(basic);
  for (const { url, headers } of server.requests) {
    expect([url, headers.authorization]).toEqual(['/v1/pets', `Bearer ${KEY}`]);
  }
  expect([server.requests.length, attempts.length]).toEqual([2, 2]);
});

const attempt = async (baseUrl: string, refuse: number, call: typeof list | typeof add) => {
  const proxy = await proxyServer(1, { refuse });
  const { client, attempts } = testClient(baseUrl, { proxy: proxy.url });
  return { failure: (await rejection(call(client))) as Error, proxy, attempts };
};

const refusal = (status: number) =>
  expect.stringMatching(
    `^the proxy (refused the request .HTTP status ${status}.|requires a valid user and password .407.; pets knows only Basic, not Digest, NTLM or Kerberos$)`,
  );

test.each([407, 403, 502])('a proxy that refuses a tunnel with %i: nothing was sent', async (status) => {
  for (const call of [list, add]) {
    const { failure, proxy } = await attempt(SECURE_SHOP, status, call);
    expect(failure).toMatchObject({ sent: false, message: refusal(status) });
    expect(proxy.requests).toEqual(['CONNECT shop.invalid:443']);
    expect(proxy.tunnelled()).toBe('');
  }
});

test('a proxy that refuses a request with 407: nothing was forwarded, and there is no retry', async () => {
  for (const call of [list, add]) {
    const { failure, attempts } = await attempt(SHOP, 407, call);
    expect(failure).toMatchObject({ sent: false, message: refusal(407) });
    expect(attempts).toHaveLength(1);
  }
});

test('a proxy that refuses a request with 502: it may have been forwarded', async () => {
  const { failure } = await attempt(SHOP, 502, add);
  expect(failure).toBeInstanceOf(OutcomeUnknownError);
  expect(failure.cause).toBeInstanceOf(ApiFailure);
  expect((await attempt(SHOP, 502, list)).attempts).toHaveLength(6);
});

test.each([SHOP, SECURE_SHOP])('a proxy that does not run: nothing was sent to %s', async (baseUrl) => {
  const address = `http://127.0.0.1:${await closedPort()}`;
  const { client, attempts } = testClient(baseUrl, { proxy: address });
  expect(await rejection(add(client))).toMatchObject({ errno: 'ECONNREFUSED', sent: false });
  expect(attempts).toHaveLength(6);
});

test('a proxy that closes the connection instead of opening a tunnel is asked once per attempt', async () => {
  let connections = 0;
  const proxy = await rawServer((socket) => {
    connections++;
    socket.once('data', () => socket.destroy());
  });
  const { client, attempts } = testClient(SECURE_SHOP, { proxy: `http://127.0.0.1:${proxy.port}` });
  expect(await rejection(add(client))).toMatchObject({ errno: 'UND_ERR_SOCKET', sent: false });
  expect([connections, attempts.length]).toEqual([6, 6]);
});

test('the command names the variable of the proxy in an error, and shows neither its password nor the API key', async () => {
  const { port } = await proxyServer(1, { refuse: 407 });
  const env = {
    PETS_BASE_URL: SECURE_SHOP,
    PETS_API_KEY: 'pets_secret_key',
    HTTPS_PROXY: `http://ada:hunter2@127.0.0.1:${port}`,
  };
  for (const flags of [['--debug'], ['--debug', '--json']]) {
    const { code, stdout, stderr } = await runInTerminal(['list', ...flags], { env });
    const message = 'cannot reach shop.invalid: the proxy requires a valid user and password (407)';
    expect([code, stderr]).toEqual([6, expect.stringContaining(message)]);
    expect(stderr).toMatch(/the proxy in HTTPS_PROXY, .* add shop.invalid to NO_PROXY/);
    for (const secret of ['hunter2', Buffer.from('ada:hunter2').toString('base64'), 'pets_secret_key'])
      expect(stdout + stderr).not.toContain(secret);
  }
});
