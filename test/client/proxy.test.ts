import { describe, expect, test } from 'vitest';
import { ApiFailure, NetworkError, OutcomeUnknownError, TimeoutError } from '../../src/client/errors.ts';
import { add, failureOf, KEY, list, PET, testClient } from '../helpers/client.ts';
import { runInTerminal } from '../helpers/context.ts';
import { proxyServer } from '../helpers/proxy.ts';
import { closedPort, rawServer } from '../helpers/raw-server.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

const SHOP = 'http://shop.invalid/v1';
const service = () =>
  scriptedServer((request, response) =>
    request.method === 'GET' ? reply(response, 200, [PET]) : reply(response, 201, PET),
  );
const portOf = (origin: string) => Number(new URL(origin).port);

describe('what is not encrypted', () => {
  test('is asked for in absolute form, with a body and an answer', async () => {
    const server = await service();
    const proxy = await proxyServer(portOf(server.origin));
    const { client, attempts } = testClient(SHOP, { proxy: { address: proxy.url } });
    expect(await list(client)).toMatchObject({ value: [{ id: 1n }] });
    await add(client);
    expect(proxy.asked).toEqual(['GET http://shop.invalid/v1/pets', 'POST http://shop.invalid/v1/pets']);
    expect(proxy.headers.map(({ host }) => host)).toEqual(['shop.invalid', 'shop.invalid']);
    expect(server.requests.map(({ url, headers }) => [url, headers.authorization])).toEqual([
      ['/v1/pets', `Bearer ${KEY}`],
      ['/v1/pets', `Bearer ${KEY}`],
    ]);
    expect(attempts).toHaveLength(2);
  });

  test.each<[string, boolean]>([
    ['127.0.0.1', false],
    ['shop.example,127.0.0.1', false],
    ['*', false],
    ['shop.example', true],
    ['27.0.0.1', true],
    ['', true],
  ])('NO_PROXY %j: through the proxy %s', async (except, isThrough) => {
    const server = await service();
    const proxy = await proxyServer(portOf(server.origin));
    const { client } = testClient(server.url, { proxy: { address: proxy.url, except } });
    await list(client);
    expect(proxy.asked).toHaveLength(isThrough ? 1 : 0);
    expect(server.requests).toHaveLength(1);
  });

  test('carries the name and the password of the proxy', async () => {
    const server = await service();
    const proxy = await proxyServer(portOf(server.origin));
    const withUser = proxy.url.replace('//', '//ada:hunter2@');
    const { client } = testClient(SHOP, { proxy: { address: withUser } });
    await list(client);
    const basic = `Basic ${Buffer.from('ada:hunter2').toString('base64')}`;
    expect(proxy.headers[0]?.['proxy-authorization']).toBe(basic);
    expect(proxy.asked).toEqual(['GET http://shop.invalid/v1/pets']);
  });
});

describe('a proxy that refuses', () => {
  const attempt = async (baseUrl: string, refuse: number, call: typeof list | typeof add) => {
    const proxy = await proxyServer(1, { refuse });
    const { client, attempts } = testClient(baseUrl, { proxy: { address: proxy.url } });
    return { failure: (await failureOf(call(client))) as Error, proxy, attempts };
  };

  test.each([407, 502, 403])('a tunnel, with %i: nothing was sent', async (status) => {
    for (const call of [list, add]) {
      const { failure, proxy } = await attempt('https://shop.invalid/v1', status, call);
      expect(failure).toBeInstanceOf(NetworkError);
      expect(failure).toMatchObject({ sent: false, message: expect.stringContaining(String(status)) });
      expect(new Set(proxy.asked)).toEqual(new Set(['CONNECT shop.invalid:443']));
      expect(proxy.tunnelled()).toBe('');
    }
  });

  test('a request in absolute form, with 407: it has passed nothing on, and is not asked again', async () => {
    for (const call of [list, add]) {
      const { failure, attempts } = await attempt(SHOP, 407, call);
      expect(failure).toBeInstanceOf(NetworkError);
      expect(failure).toMatchObject({ sent: false, message: expect.stringContaining('407') });
      expect(attempts).toHaveLength(1);
    }
  });

  test('a request in absolute form, with 502: it may have passed it on', async () => {
    const { failure } = await attempt(SHOP, 502, add);
    expect(failure).toBeInstanceOf(OutcomeUnknownError);
    expect(failure.cause).toBeInstanceOf(ApiFailure);
    expect((await attempt(SHOP, 502, list)).attempts).toHaveLength(3);
  });
});

test.each([SHOP, 'https://shop.invalid/v1'])(
  'a proxy that is down: nothing was sent to %s',
  async (baseUrl) => {
    const url = `http://127.0.0.1:${await closedPort()}`;
    const { client, attempts } = testClient(baseUrl, { proxy: { address: url } });
    expect(await failureOf(add(client))).toMatchObject({ code: 'ECONNREFUSED', sent: false });
    expect(attempts).toHaveLength(3);
  },
);

test('a proxy that never answers: the time of an attempt ends it', async () => {
  const proxy = await rawServer(() => {});
  const url = `http://127.0.0.1:${proxy.port}`;
  const { client } = testClient('https://shop.invalid/v1', {
    proxy: { address: url },
    timeoutMilliseconds: 50,
  });
  const failure = await failureOf(add(client));
  expect(failure).toBeInstanceOf(TimeoutError);
  expect(failure).toMatchObject({ sent: false });
});

describe('the command', () => {
  const env = (baseUrl: string, proxy: string) => ({
    PETS_BASE_URL: baseUrl,
    PETS_API_KEY: 'pets_secret_key',
    PETS_ALLOW_HTTP: '1',
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
  });

  test('never goes to this machine through a proxy', async () => {
    const [server, proxy] = [await service(), await proxyServer(1)];
    const { code } = await runInTerminal(['list'], { env: env(server.url, proxy.url) });
    expect([code, proxy.asked, server.requests.length]).toEqual([0, [], 1]);
  });

  test('shows the password of a proxy nowhere, whatever fails', async () => {
    const refusing = await proxyServer(1, { refuse: 407 });
    for (const port of [await closedPort(), refusing.port]) {
      for (const baseUrl of [SHOP, 'https://shop.invalid/v1']) {
        for (const flags of [['--debug'], ['--debug', '--json']]) {
          const proxy = `http://ada:hunter2@127.0.0.1:${port}`;
          const { code, stdout, stderr } = await runInTerminal(['list', ...flags], {
            env: env(baseUrl, proxy),
          });
          expect(code).toBe(6);
          for (const secret of [
            'hunter2',
            Buffer.from('ada:hunter2').toString('base64'),
            'pets_secret_key',
          ]) {
            expect(stdout + stderr).not.toContain(secret);
          }
        }
      }
    }
  });
});
