import { describe, expect, test } from 'vitest';
import { proxyFor } from '../../src/cli/connection/connect.ts';
import { CliError } from '../../src/cli/errors/errors.ts';

const SHOP = 'http://shop.invalid/v1';

describe('proxyFor', () => {
  const proxy = 'http://proxy.example:3128';
  test.each<[string, string, Record<string, string>, object | undefined]>([
    ['no variable', SHOP, {}, undefined],
    ['an empty value counts as unset', SHOP, { HTTP_PROXY: '', https_proxy: '' }, undefined],
    ['HTTP_PROXY for http', SHOP, { HTTP_PROXY: proxy }, { address: proxy }],
    ['https_proxy for https', 'https://shop.invalid/v1', { https_proxy: proxy }, { address: proxy }],
    ['HTTP_PROXY is not used for https', 'https://shop.invalid/v1', { HTTP_PROXY: proxy }, undefined],
    ['HTTPS_PROXY is not used for http', SHOP, { HTTPS_PROXY: proxy }, undefined],
    ['a host and port without a protocol', SHOP, { http_proxy: 'proxy.example:3128' }, { address: proxy }],
    [
      'lower case takes precedence',
      SHOP,
      { http_proxy: proxy, HTTP_PROXY: 'http://other' },
      { address: proxy },
    ],
    ['even if it is empty', SHOP, { http_proxy: '', HTTP_PROXY: proxy }, undefined],
    ['NO_PROXY', SHOP, { HTTP_PROXY: proxy, NO_PROXY: 'a,b' }, { address: proxy, except: 'a,b' }],
    [
      'no_proxy takes precedence',
      SHOP,
      { HTTP_PROXY: proxy, NO_PROXY: 'a', no_proxy: 'b' },
      { address: proxy, except: 'b' },
    ],
    ...['localhost', '127.0.0.1', '127.1.2.3', '[::1]', 'LOCALHOST'].map(
      (host): [string, string, Record<string, string>, undefined] => [
        `never for ${host}`,
        `https://${host}:8443/v1`,
        { HTTP_PROXY: proxy, HTTPS_PROXY: proxy },
        undefined,
      ],
    ),
    ...['localhost.example', '128.0.0.1', '10.0.0.1'].map(
      (host): [string, string, Record<string, string>, object] => [
        `for ${host}`,
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
  ])('an invalid proxy is refused without printing it: %s', (text) => {
    const refused = () => proxyFor(SHOP, { HTTP_PROXY: text });
    expect(refused).toThrow(CliError);
    expect(refused).toThrow(/^HTTP_PROXY is not the URL of an HTTP proxy$/);
  });
});
