import { describe, expect, test } from 'vitest';
import { ApiFailure, NetworkError, OutcomeUnknownError } from '../../src/client/errors.ts';
import { add, KEY, list, PET, rejection, testClient } from '../helpers/client.ts';
import { runInTerminal } from '../helpers/context.ts';
import { closedPort } from '../helpers/listen.ts';
import { proxyServer } from '../helpers/proxy.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

const SHOP = 'http://shop.invalid/v1';
const SECURE_SHOP = 'https://shop.invalid/v1';

async function serviceWithProxy() {
  const server = await scriptedServer((request, response) =>
    request.method === 'GET' ? reply(response, 200, [PET]) : reply(response, 201, PET),
  );
  return { server, proxy: await proxyServer(Number(new URL(server.origin).port)) };
}

describe('a proxy for http', () => {
  test('gets requests with an absolute URL', async () => {
    const { server, proxy } = await serviceWithProxy();
    const { client, attempts } = testClient(SHOP, { proxy: { address: proxy.url } });
    expect(await list(client)).toMatchObject({ value: [{ id: 1n }] });
    await add(client);
    expect(proxy.requests).toEqual(['GET http://shop.invalid/v1/pets', 'POST http://shop.invalid/v1/pets']);
    expect(proxy.headers.map(({ host }) => host)).toEqual(['shop.invalid', 'shop.invalid']);
    for (const { url, headers } of server.requests) {
      expect([url, headers.authorization]).toEqual(['/v1/pets', `Bearer ${KEY}`]);
    }
    expect([server.requests.length, attempts.length]).toEqual([2, 2]);
  });

  test.each<[string, boolean]>([
    ['shop.example,127.0.0.1', false],
    ['shop.example', true],
    ['', true],
  ])('with NO_PROXY %j is used: %s', async (except, isUsed) => {
    const { server, proxy } = await serviceWithProxy();
    await list(testClient(server.url, { proxy: { address: proxy.url, except } }).client);
    expect(proxy.requests).toHaveLength(isUsed ? 1 : 0);
    expect(server.requests).toHaveLength(1);
  });

  test('gets the user name and password of its URL', async () => {
    const { proxy } = await serviceWithProxy();
    const address = proxy.url.replace('//', '//ada:hunter2@');
    await list(testClient(SHOP, { proxy: { address } }).client);
    const basic = `Basic ${Buffer.from('ada:hunter2').toString('base64')}`;
    expect(proxy.headers[0]?.['proxy-authorization']).toBe(basic);
    expect(proxy.requests).toEqual(['GET http://shop.invalid/v1/pets']);
  });
});

describe('a proxy that refuses', () => {
  const attempt = async (baseUrl: string, refuse: number, call: typeof list | typeof add) => {
    const proxy = await proxyServer(1, { refuse });
    const { client, attempts } = testClient(baseUrl, { proxy: { address: proxy.url } });
    return { failure: (await rejection(call(client))) as Error, proxy, attempts };
  };

  test.each([407, 502, 403])('a tunnel with %i: nothing was sent', async (status) => {
    for (const call of [list, add]) {
      const { failure, proxy } = await attempt(SECURE_SHOP, status, call);
      expect(failure).toBeInstanceOf(NetworkError);
      expect(failure).toMatchObject({ sent: false, message: expect.stringContaining(String(status)) });
      expect(new Set(proxy.requests)).toEqual(new Set(['CONNECT shop.invalid:443']));
      expect(proxy.tunnelled()).toBe('');
    }
  });

  test('a request with 407: nothing was forwarded, and there is no retry', async () => {
    for (const call of [list, add]) {
      const { failure, attempts } = await attempt(SHOP, 407, call);
      expect(failure).toBeInstanceOf(NetworkError);
      expect(failure).toMatchObject({ sent: false, message: expect.stringContaining('407') });
      expect(attempts).toHaveLength(1);
    }
  });

  test('a request with 502: it may have been forwarded', async () => {
    const { failure } = await attempt(SHOP, 502, add);
    expect(failure).toBeInstanceOf(OutcomeUnknownError);
    expect(failure.cause).toBeInstanceOf(ApiFailure);
    expect((await attempt(SHOP, 502, list)).attempts).toHaveLength(3);
  });
});

test.each([SHOP, SECURE_SHOP])('a proxy that does not run: nothing was sent to %s', async (baseUrl) => {
  const address = `http://127.0.0.1:${await closedPort()}`;
  const { client, attempts } = testClient(baseUrl, { proxy: { address } });
  expect(await rejection(add(client))).toMatchObject({ code: 'ECONNREFUSED', sent: false });
  expect(attempts).toHaveLength(3);
});

describe('the command', () => {
  const env = (baseUrl: string, proxy: string) => ({
    PETS_BASE_URL: baseUrl,
    PETS_API_KEY: 'pets_secret_key',
    PETS_ALLOW_HTTP: '1',
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
  });

  test('never uses a proxy for loopback', async () => {
    const { server, proxy } = await serviceWithProxy();
    const { code } = await runInTerminal(['list'], { env: env(server.url, proxy.url) });
    expect([code, proxy.requests, server.requests.length]).toEqual([0, [], 1]);
  });

  const secrets = ['hunter2', Buffer.from('ada:hunter2').toString('base64'), 'pets_secret_key'];
  test.each([
    ['stopped', SHOP, undefined],
    ['stopped', SECURE_SHOP, undefined],
    ['refusing', SHOP, 407],
    ['refusing', SECURE_SHOP, 407],
  ])('does not print the password of a %s proxy to %s', async (_name, baseUrl, refuse) => {
    const port = refuse === undefined ? await closedPort() : (await proxyServer(1, { refuse })).port;
    for (const flags of [['--debug'], ['--debug', '--json']]) {
      const { code, stdout, stderr } = await runInTerminal(['list', ...flags], {
        env: env(baseUrl, `http://ada:hunter2@127.0.0.1:${port}`),
      });
      expect(code).toBe(6);
      for (const secret of secrets) expect(stdout + stderr).not.toContain(secret);
    }
  });
});
