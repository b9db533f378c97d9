import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { listBundledFiles } from '../../src/system/bundled-files.ts';
import { DIST } from '../helpers/pets.ts';
import { connectTo } from '../helpers/raw-client.ts';
import { start } from '../helpers/service.ts';
import { startWithTools } from '../helpers/tools.ts';

/** The size of everything that a browser loads to show the page, compressed. */
const MAX_BYTES = 20 * 1024;

const files = listBundledFiles(DIST, 'page').map((name) => (name === 'index.html' ? '/' : `/page/${name}`));

describe('the page', () => {
  test('consists of few small files, which need no token', async () => {
    const { service } = await startWithTools();
    const types: Record<string, string> = {};
    let bytes = 0;
    for (const path of files) {
      const { headers, body } = await fetchRaw(service().port, path, 'Accept-Encoding: br, gzip;q=0.5');
      expect(headers).toMatch(/^content-encoding: gzip$/im);
      types[path.replace(/-[0-9a-f]{10}\./, '.')] = /^content-type: (.*)$/im.exec(headers)?.[1] ?? '';
      expect(gunzipSync(body).length).toBeGreaterThan(body.length);
      bytes += body.length;
    }
    expect(types).toEqual({
      '/': 'text/html; charset=utf-8',
      '/page/icon.svg': 'image/svg+xml',
      '/page/page.css': 'text/css; charset=utf-8',
      '/page/page.js': 'text/javascript; charset=utf-8',
    });
    expect(bytes).toBeLessThanOrEqual(MAX_BYTES);
  });

  test('allows no content of other origins, no inline code and no frames', async () => {
    const { use } = await startWithTools();
    for (const path of files) {
      const { headers } = await use(path);
      expect(Object.fromEntries(headers)).toMatchObject({
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'cache-control': path === '/' ? 'no-cache' : 'public, max-age=31536000, immutable',
        vary: 'Accept-Encoding',
      });
    }
  });

  test('is not sent again if it has not changed', async () => {
    const { use } = await startWithTools();
    for (const path of files) {
      const etag = (await use(path)).headers.get('etag') ?? '';
      for (const list of [etag, `"other", ${etag}`]) {
        const { status, headers } = await use(path, { headers: { 'If-None-Match': list } });
        expect([status, headers.get('etag'), headers.get('content-length')]).toEqual([304, etag, null]);
      }
      expect((await use(path, { headers: { 'If-None-Match': '"other"' } })).status).toBe(200);
    }
  });

  test.each(['', 'Accept-Encoding: br', 'Accept-Encoding: gzip;q=0'])(
    'is sent uncompressed with %j',
    async (line) => {
      const { service } = await startWithTools();
      const { headers, body } = await fetchRaw(service().port, '/', line);
      expect(headers).not.toMatch(/content-encoding/i);
      expect(body.toString()).toMatch(/^<!doctype html>/i);
    },
  );

  test.each([
    ['GET', '/?a=b', 200],
    ['HEAD', '/', 200],
    ['OPTIONS', '/', 204],
    ['POST', '/', 405],
    ['GET', '/page/', 404],
    ['GET', '/page/index.html', 404],
    ['GET', '/page/../package.json', 404],
    ['GET', '/page/%2e%2e/page.js', 404],
    ['GET', '//evil.example/', 400],
  ])('%s %s gets %i', async (method, path, status) => {
    const { service } = await startWithTools();
    const { status: received } = await fetchRaw(service().port, path, '', method);
    expect(received).toBe(status);
  });

  test('needs neither a token nor the same origin, is not recorded, not counted, and has no CORS headers', async () => {
    const { service, requests, call } = await startWithTools({ cors: ['*'], allowHosts: ['shop.test'] });
    for (let i = 0; i < 100; i++) {
      const path = files[i % files.length] ?? '';
      const { status, headers } = await fetch(new URL(path, service().url), {
        headers: { Origin: 'http://evil.example', 'Sec-Fetch-Site': 'cross-site' },
      });
      expect([status, headers.get('access-control-allow-origin')]).toEqual([200, null]);
    }
    expect((await requests()).requests).toEqual([]);
    expect((await call('/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });

  test('does not exist without the developer tools', async () => {
    const { call } = await start();
    for (const path of files) expect((await call(path)).status).toBe(404);
    expect((await call('/', { method: 'OPTIONS' })).status).toBe(204);
  });
});

/** Sends a request and returns the status, the headers and the bytes of the body, as they were sent. */
async function fetchRaw(
  port: number,
  path: string,
  line = '',
  method = 'GET',
): Promise<{ status: number; headers: string; body: Buffer }> {
  const socket = connectTo(port);
  const lines = [`${method} ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, 'Connection: close', line];
  socket.write(`${lines.filter(Boolean).join('\r\n')}\r\n\r\n`);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  const all = Buffer.concat(chunks);
  const end = all.indexOf('\r\n\r\n');
  const headers = all.toString('latin1', 0, end).replaceAll('\r', '');
  return { status: Number(headers.split(' ')[1]), headers, body: all.subarray(end + 4) };
}
