import { describe, expect, test } from 'vitest';
import { proxyFor } from '../../src/cli/connection/proxy.ts';
import { CliError } from '../../src/cli/core/errors.ts';

const SHOP = 'http://shop.invalid/v1';

describe('proxyFor', () => {
  const proxy = 'http://proxy.example:3128';
  const secure = 'https://shop.invalid/v1';
  test.each<[string, string, Record<string, string>, variable: string | undefined]>([
    ['no variable', SHOP, {}, undefined],
    ['HTTP_PROXY for http', SHOP, { HTTP_PROXY: proxy }, 'HTTP_PROXY'],
    ['https_proxy for https', secure, { https_proxy: proxy }, 'https_proxy'],
    ['HTTP_PROXY is not used for https', secure, { HTTP_PROXY: proxy }, undefined],
    ['a host and port without a protocol', SHOP, { http_proxy: 'proxy.example:3128' }, 'http_proxy'],
    ['lower case takes precedence', SHOP, { http_proxy: proxy, HTTP_PROXY: 'http://other' }, 'http_proxy'],
    ['ALL_PROXY counts last', secure, { ALL_PROXY: proxy }, 'ALL_PROXY'],
    ['no_proxy', SHOP, { HTTP_PROXY: proxy, no_proxy: 'shop.invalid', NO_PROXY: 'a' }, undefined],
    ['no_proxy takes precedence', SHOP, { HTTP_PROXY: proxy, NO_PROXY: '*', no_proxy: 'b' }, 'HTTP_PROXY'],
    ['SOCKS for another protocol', SHOP, { HTTPS_PROXY: 'socks://proxy' }, undefined],
    // resolve.test.ts has the names of this machine.
    ['this machine', 'https://LOCALHOST:8443/v1', { HTTPS_PROXY: proxy }, undefined],
    ['SOCKS for other machines', 'http://127.0.0.1/v1', { HTTP_PROXY: 'socks://proxy' }, undefined],
  ])('%s (%s, %j)', (_name, baseUrl, env, variable) => {
    expect(proxyFor(baseUrl, env)).toEqual(variable && { address: proxy, variable });
  });

  test.each<[noProxy: string, host: string, isUsed: boolean]>([
    ['shop.invalid', 'shop.invalid', false],
    ['a, shop.invalid b', 'shop.invalid', false],
    ['*', 'shop.invalid', false],
    ['shop.invalid:80', 'shop.invalid', false],
    ['shop.invalid:80', 'shop.invalid:8080', true],
    ['shop.invalid:8080', 'shop.invalid:8080', false],
    ['op.invalid', 'shop.invalid', true],
    ['', 'shop.invalid', true],
    ['10.0.0.0/8', '10.1.2.3', false],
    ['10.0.0.0/8', 'shop.invalid', true],
    ['[fd00::1]:80', '[fd00::1]', false],
    ['fd00::/8', '[fd12::1]', false],
  ])('with NO_PROXY %j for %s is used: %s', (noProxy, host, isUsed) => {
    const env = { HTTP_PROXY: proxy, NO_PROXY: noProxy };
    expect(proxyFor(`http://${host}/v1`, env) !== undefined).toBe(isUsed);
  });

  test.each([
    'socks5://user:hunter2@proxy',
    'http://user:hunter2%zz@proxy',
    'http://user:hun#ter2@proxy',
    'http://u:hunter2?@proxy',
    'http://u:hun/ter2@proxy',
  ])('an invalid proxy is refused without printing it: %s', (text) => {
    const refused = () => proxyFor(SHOP, { HTTP_PROXY: text });
    expect(refused).toThrow(CliError);
    expect(refused).toThrow(/^HTTP_PROXY is not the URL of an HTTP proxy$/);
    expect(refused).toThrow(expect.objectContaining({ hint: expect.stringMatching(/@ as %40, # as %23/) }));
  });
});
