import { describe, expect, test } from 'vitest';
import { CliError } from '../../src/cli/cli-error.ts';
import { proxiesFor } from '../../src/cli/profiles/proxies.ts';

const SHOP = 'http://shop.invalid/v1';

describe('proxiesFor reads the environment', () => {
  const proxy = 'http://proxy.example:3128';
  test.each<[string, string, Record<string, string>, object | undefined]>([
    ['nothing', SHOP, {}, undefined],
    ['an empty value is none', SHOP, { HTTP_PROXY: '', https_proxy: '' }, undefined],
    ['one for http', SHOP, { HTTP_PROXY: proxy }, { http: proxy }],
    ['one for https', SHOP, { https_proxy: proxy }, { https: proxy }],
    ['a bare host and port', SHOP, { http_proxy: 'proxy.example:3128' }, { http: proxy }],
    ['lower case is stronger', SHOP, { http_proxy: proxy, HTTP_PROXY: 'http://other' }, { http: proxy }],
    ['even where it is empty', SHOP, { http_proxy: '', HTTP_PROXY: proxy }, undefined],
    ['exceptions', SHOP, { HTTP_PROXY: proxy, NO_PROXY: 'a,b' }, { http: proxy, except: 'a,b' }],
    [
      'exceptions in lower case',
      SHOP,
      { HTTP_PROXY: proxy, NO_PROXY: 'a', no_proxy: 'b' },
      { http: proxy, except: 'b' },
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
        { https: proxy },
      ],
    ),
  ])('%s (%s, %j)', (_name, baseUrl, env, expected) => {
    expect(proxiesFor(baseUrl, env)).toEqual(expected);
  });

  test.each([
    'socks5://user:hunter2@proxy',
    'ftp://user:hunter2@proxy',
    'http://user:hunter2@',
    'http://a b',
  ])('what is no proxy is refused without its text: %s', (text) => {
    const refused = () => proxiesFor(SHOP, { HTTP_PROXY: text });
    expect(refused).toThrow(CliError);
    expect(refused).toThrow(/^HTTP_PROXY is not the address of an http proxy$/);
  });
});
