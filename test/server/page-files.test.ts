import { describe, expect, test } from 'vitest';
import { listBundledFiles } from '../../src/system/bundled-files.ts';
import { DIST } from '../helpers/pets.ts';
import { Connection } from '../helpers/raw-client.ts';
import { startWithTools } from '../helpers/real-service.ts';

/** The maximum size of everything that a browser loads to show the page. */
const MAX_BYTES = 64 * 1024;

const files = listBundledFiles(DIST, 'page').map((name) => (name === 'index.html' ? '/' : `/page/${name}`));

describe('the page', () => {
  test('consists of few small files, and allows no content of other origins, no inline code and no frames', async () => {
    const { use } = await startWithTools();
    const types: Record<string, string> = {};
    let bytes = 0;
    for (const path of files) {
      const response = await use(path);
      types[path.replace(/-[0-9a-f]{10}\./, '.')] = response.headers.get('content-type') ?? '';
      bytes += (await response.arrayBuffer()).byteLength;
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'cache-control': path === '/' ? 'no-cache' : 'public, max-age=31536000, immutable',
      });
    }
    expect(types).toEqual({
      '/': 'text/html; charset=utf-8',
      '/page/icon.svg': 'image/svg+xml',
      '/page/page.css': 'text/css; charset=utf-8',
      '/page/page.js': 'text/javascript; charset=utf-8',
    });
    expect(bytes).toBeLessThanOrEqual(MAX_BYTES);
  });

  test.each([
    ['GET', '/?a=b', 200],
    ['HEAD', '/', 200],
    ['OPTIONS', '/', 204],
    ['POST', '/', 405],
    ['GET', '/page/index.html', 404],
    ['GET', '/page/../package.json', 404],
    ['GET', '/page/%2e%2e/page.js', 404],
    ['GET', '//evil.example/', 404],
  ])('%s %s gets %i', async (method, path, status) => {
    const { port } = await startWithTools();
    const bytes = `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;
    const connection = new Connection(port());
    await connection.send(bytes);
    expect(String(await connection.rest())).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  test('needs neither a token nor the same origin, is not recorded, not counted, and has no CORS headers', async () => {
    const { service, requests, call } = await startWithTools({ cors: ['*'], allowHosts: ['shop.test'] });
    for (const path of [...files, '/favicon.ico']) {
      const { status, headers } = await fetch(new URL(path, service().url), {
        headers: { Origin: 'http://evil.example', 'Sec-Fetch-Site': 'cross-site' },
      });
      expect([status < 300, headers.get('access-control-allow-origin')]).toEqual([true, null]);
    }
    expect((await requests()).requests).toEqual([]);
    expect((await call('/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });
});
