import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { json } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { manualClock } from '../helpers/clock.ts';
import { readBlocks } from '../helpers/document-blocks.ts';
import { readDocument } from '../helpers/documents.ts';
import { freshMachine, serve } from '../helpers/pets.ts';
import { type Configure, hasProxy, nginxServer, startProxy } from '../helpers/real-proxies.ts';

// These tests run the configurations of reverse proxies that docs/serve.md shows.

const blocks = readBlocks(readDocument('docs/serve.md'));
const OPTIONS = '--public-url https://shop.example/inventory --trust-proxy 127.0.0.1';

/** Returns the configuration in the document, with these texts replaced. */
function configurationOf(language: string, replacements: Record<string, string>): string {
  let text = blocks.find((block) => block.language === language)?.text ?? '';
  for (const [from, to] of Object.entries(replacements)) {
    expect(text).toContain(from);
    text = text.replaceAll(from, to);
  }
  return text;
}

/** The configuration of each proxy for the service at `upstream` (host:port). */
const CONFIGURE: Record<'nginx' | 'haproxy', (upstream: string) => Configure> = {
  nginx: (upstream) =>
    nginxServer((port) =>
      configurationOf('nginx', { 'listen 80;': `listen 127.0.0.1:${port};`, '127.0.0.1:7387': upstream })
        .replace('server {', '')
        .replace(/\}\n$/, ''),
    ),
  haproxy: (upstream) => (port) =>
    configurationOf('haproxy', { 'bind :80': `bind 127.0.0.1:${port}`, '127.0.0.1:7387': upstream }),
};

test('the document shows how to start the service for these proxies', () => {
  expect(blocks.map(({ text }) => text)).toContain(`pets serve ${OPTIONS}\n`);
});

describe.each(['nginx', 'haproxy'] as const)('the configuration of %s', (name) => {
  test.skipIf(!hasProxy(name))('works, and the service sees the addresses of clients', async () => {
    const machine = await freshMachine();
    const args = ['--ephemeral', '--seed', '--no-profile', '--log', ...OPTIONS.split(' ')];
    // The clock stands still, so that all requests are in the same minute.
    const service = await serve(machine, args, { clock: manualClock(new Date().toISOString()) });
    const port = await startProxy(name, CONFIGURE[name](new URL(service.url).host));

    // All pages are read, which shows that the links to next pages have the prefix `/inventory`.
    await machine.saveProfile('prod', { baseUrl: `http://127.0.0.1:${port}/inventory/v1`, key: service.key });
    const listed = await machine.pets(['list', '--all', '--limit', '10', '--json']);
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(listed.stdout)).toHaveLength(66);

    /** Requests a path as a client with this address, which claims to have another one. */
    const get = async (path: string, localAddress: string) => {
      const headers = { Host: 'shop.example', 'X-Forwarded-For': '198.51.100.7' };
      const sent = request({ host: '127.0.0.1', port, path, localAddress, headers, agent: false }).end();
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      return { status: response.statusCode, headers: response.headers, body: await json(response) };
    };
    const remaining = async (address: string) => {
      const { status, headers } = await get('/inventory/v1/pets', address);
      return [status, headers['x-ratelimit-remaining']];
    };
    expect(await remaining('127.0.0.2')).toEqual([401, '59']);
    expect(await remaining('127.0.0.3')).toEqual([401, '59']);
    expect(await remaining('127.0.0.2')).toEqual([401, '58']);
    const log = service.stderr().trim().split('\n');
    const clients = log.slice(-3).map((line) => JSON.parse(line).request.client);
    expect(clients).toEqual(['127.0.0.2', '127.0.0.3', '127.0.0.2']);
    expect((await get('/inventory/openapi.json', '127.0.0.2')).body).toMatchObject({
      servers: [{ url: 'https://shop.example/inventory/v1' }, {}, {}],
    });
  });
});
