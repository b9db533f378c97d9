import { describe, expect, test } from 'vitest';
import { CliError } from '../../src/cli/errors/cli-error.ts';
import { proxyFor } from '../../src/cli/profiles/proxy.ts';

const SHOP = 'http://shop.invalid/v1';

describe('proxyFor reads the environment', () => {
  const proxy = 'http://proxy.example:3128';
  test.each<[string, string, Record<string, string>, object | undefined]>([
    ['nothing', SHOP, {}, undefined],
    ['an empty value is none', SHOP, { HTTP_PROXY: '', https_proxy: '' }, undefined],
    ['one for http', SHOP, { HTTP_PROXY: proxy }, { address: proxy }],
    ['one for https', 'https://shop.invalid/v1', { https_proxy: proxy }, { address: proxy }],
    ['one for http is none for https', 'https://shop.invalid/v1', { HTTP_PROXY: proxy }, undefined],
    ['one for https is none for http', SHOP, { HTTPS_PROXY: proxy }, undefined],
    ['a bare host and port', SHOP, { http_proxy: 'proxy.example:3128' }, { address: proxy }],
    ['lower case is stronger', SHOP, { http_proxy: proxy, HTTP_PROXY: 'http://other' }, { address: proxy }],
    ['even where it is empty', SHOP, { http_proxy: '', HTTP_PROXY: proxy }, undefined],
    ['exceptions', SHOP, { HTTP_PROXY: proxy, NO_PROXY: 'a,b' }, { address: proxy, except: 'a,b' }],
    [
      'exceptions in lower case',
      SHOP,
      { HTTP_PROXY: proxy, NO_PROXY: 'a', no_proxy: 'b' },
      { address: proxy, except: 'b' },
    ],
    ...['localhost', '127.0.0.1', '127.1.2.3', '[::1]', 'LOCALHOST'].map(
      (host): [string, string, Record<string, string>, undefined] => [
        `${host} is this machine`,
        `https://${host}:8443/v1`,
        { HTTP_PROXY: proxy, HTTPS_PROXY: proxy },
        undefined,
      ],
    ),
    ...['localhost.example', '128.0.0.1', '10.0.0.1'].map(
      (host): [string, string, Record<string, string>, object] => [
        `${host} is not`,
        `https://${host}/v1`,
        { HTTPS_PROXY: proxy },
        { address: proxy },
      ],
    ),
  ])('%s (%s, %j)', (_name, baseUrl, env, expected) => {
    expect(proxyFor(baseUrl, env)).toEqual(expected);
  });

  test.each([
    'socks5://user:hunter2@proxy',
    'ftp://user:hunter2@proxy',
    'http://user:hunter2@',
    'http://a b',
  ])('what is no proxy is refused without its text: %s', (text) => {
    const refused = () => proxyFor(SHOP, { HTTP_PROXY: text });
    expect(refused).toThrow(CliError);
    expect(refused).toThrow(/^HTTP_PROXY is not the address of an http proxy$/);
  });
});
