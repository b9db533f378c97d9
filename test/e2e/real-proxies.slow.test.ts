import { describe, expect, test } from 'vitest';
import { inventoryWithAbsoluteLinks } from '../helpers/express.ts';
import { freshMachine, serve } from '../helpers/pets.ts';
import {
  haproxyInFront,
  hasProxy,
  nginxInFront,
  PROXY_NAMES,
  type ProxyName,
  squid,
  startProxy,
  tinyproxy,
} from '../helpers/real-proxies.ts';

// The command and the service with proxies of other projects between them.

/** The addresses that the command uses, for each proxy in front of the service at `host`. */
const THROUGH: Record<ProxyName, (host: string) => Promise<{ host: string; env: Record<string, string> }>> = {
  nginx: async (host) => reverse(await startProxy('nginx', nginxInFront(host))),
  haproxy: async (host) => reverse(await startProxy('haproxy', haproxyInFront(host))),
  squid: async (host) => forward(host, await startProxy('squid', squid())),
  tinyproxy: async (host) => forward(host, await startProxy('tinyproxy', tinyproxy())),
};

const reverse = (port: number) => ({ host: `127.0.0.1:${port}`, env: {} });
const forward = (host: string, port: number) => ({
  host,
  // A proxy is used for loopback only if NO_PROXY is set without it.
  env: { http_proxy: `http://127.0.0.1:${port}`, no_proxy: 'none.invalid' },
});

describe.each(PROXY_NAMES)('through %s', (name) => {
  test.skipIf(!hasProxy(name))('list, add and get work', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
    const machine = await freshMachine();
    const { host, env } = await THROUGH[name](new URL(service.url).host);
    await machine.saveProfile('prod', { baseUrl: `http://${host}/v1`, key: service.key });
    const pets = (args: readonly string[]) => machine.pets(args, { env });
    const listed = await pets(['list', '--all', '--json']);
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(listed.stdout)).toHaveLength(66);
    const added = await pets(['add', 'Rex', '--category', '3', '--json']);
    expect(added).toMatchObject({ code: 0 });
    const { id } = JSON.parse(added.stdout);
    expect(JSON.parse((await pets(['get', String(id), '--json'])).stdout)).toMatchObject({ name: 'Rex' });
  });
});

describe('through nginx', () => {
  const gzip = 'gzip on; gzip_min_length 1; gzip_proxied any; gzip_types application/json;';

  test.skipIf(!hasProxy('nginx'))('compressed lists are read', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
    const machine = await freshMachine();
    const port = await startProxy('nginx', nginxInFront(new URL(service.url).host, gzip));
    await machine.saveProfile('prod', { baseUrl: `http://127.0.0.1:${port}/v1`, key: service.key });
    const listed = await machine.pets(['list', '--all', '--json', '--debug']);
    expect(JSON.parse(listed.stdout)).toHaveLength(66);
    const [attempt] = listed.stderr.split('\n').map((line) => line && JSON.parse(line));
    expect(attempt.debug).toMatchObject({
      request: { 'Accept-Encoding': 'gzip, br', 'User-Agent': expect.stringMatching(/^pets\/\d/) },
      headers: { 'content-encoding': 'gzip' },
    });
  });

  test.skipIf(!hasProxy('nginx'))('links to the address of the service behind it are followed', async () => {
    const host = await inventoryWithAbsoluteLinks();
    const port = await startProxy('nginx', nginxInFront(host));
    const machine = await freshMachine();
    await machine.saveProfile('prod', { baseUrl: `http://127.0.0.1:${port}/v1`, key: 'pets_k' });
    const listed = await machine.pets(['list', '--all', '--json', '--debug']);
    expect(JSON.parse(listed.stdout)).toHaveLength(3);
    expect(listed.stderr).not.toContain(`"url":"http://${host}`);
  });
});
