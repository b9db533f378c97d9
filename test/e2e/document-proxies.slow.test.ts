import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { json } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { manualClock } from '../helpers/clock.ts';
import { readBlocks } from '../helpers/document-blocks.ts';
import { documentedProxy } from '../helpers/document-proxies.ts';
import { readDocument } from '../helpers/documents.ts';
import { freshMachine, serve } from '../helpers/pets.ts';
import { hasProxy, startProxy } from '../helpers/real-proxies.ts';

// These tests run the configurations of reverse proxies that docs/serve.md shows.

const blocks = readBlocks(readDocument('docs/serve.md'));
const OPTIONS = '--public-url https://shop.example/inventory --trust-proxy 127.0.0.1';

test('the document shows how to start the service for these proxies', () => {
  expect(blocks.map(({ text }) => text)).toContain(`pets serve ${OPTIONS}\n`);
});

describe.each(['nginx', 'haproxy'] as const)('the configuration of %s', (name) => {
  test.skipIf(!hasProxy(name))('works, and the service sees the addresses of clients', async () => {
    const machine = await freshMachine();
    const animals = Array.from({ length: 150 }, (_, i) => `animal ${i + 1},7\n`);
    const seed = await machine.file('animals.csv', `name,category\n${animals.join('')}`);
    const args = ['--ephemeral', '--seed', seed, '--no-profile', '--log', ...OPTIONS.split(' ')];
    // The clock stands still, so that all requests are in the same minute.
    const service = await serve(machine, args, { clock: manualClock(new Date().toISOString()) });
    const upstreams = { '127.0.0.1:7387': new URL(service.url).host };
    const configuration = blocks.find(({ language }) => language === name)?.text ?? '';
    const port = await startProxy(name, documentedProxy(name, configuration, upstreams));

    // All pages are read, which shows that the links to next pages have the prefix `/inventory`.
    await machine.saveProfile('prod', { baseUrl: `http://127.0.0.1:${port}/inventory/v1`, key: service.key });
    const listed = await machine.pets(['list', '--all', '--json']);
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(listed.stdout)).toHaveLength(150);

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
