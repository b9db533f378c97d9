import { describe, expect, test } from 'vitest';
import { proxyFor } from '../../src/cli/connection/connect.ts';
import { CliError } from '../../src/cli/errors/errors.ts';

const SHOP = 'http://shop.invalid/v1';

describe('proxyFor', () => {
  const proxy = 'http://proxy.example:3128';
  const secure = 'https://shop.invalid/v1';
  test.each<[string, string, Record<string, string>, string | undefined, except?: string]>([
    ['no variable', SHOP, {}, undefined],
    ['an empty value counts as unset', SHOP, { HTTP_PROXY: '', https_proxy: '' }, undefined],
    ['HTTP_PROXY for http', SHOP, { HTTP_PROXY: proxy }, proxy],
    ['https_proxy for https', secure, { https_proxy: proxy }, proxy],
    ['HTTP_PROXY is not used for https', secure, { HTTP_PROXY: proxy }, undefined],
    ['HTTPS_PROXY is not used for http', SHOP, { HTTPS_PROXY: proxy }, undefined],
    ['a host and port without a protocol', SHOP, { http_proxy: 'proxy.example:3128' }, proxy],
    ['lower case takes precedence', SHOP, { http_proxy: proxy, HTTP_PROXY: 'http://other' }, proxy],
    ['even if it is empty', SHOP, { http_proxy: '', HTTP_PROXY: proxy }, undefined],
    ['NO_PROXY', SHOP, { HTTP_PROXY: proxy, NO_PROXY: 'a,b' }, proxy, 'a,b'],
    ['no_proxy takes precedence', SHOP, { HTTP_PROXY: proxy, NO_PROXY: 'a', no_proxy: 'b' }, proxy, 'b'],
  ])('%s (%s, %j)', (_name, baseUrl, env, address, except) => {
    expect(proxyFor(baseUrl, env)).toEqual(address && { address, ...(except && { except }) });
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
