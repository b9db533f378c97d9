import { expect, test } from 'vitest';
import { freshMachine, serve } from '../helpers/pets.ts';
import {
  haproxyInFront,
  hasProxy,
  nginxInFront,
  PROXY_NAMES,
  PROXY_PASSWORD,
  PROXY_USER,
  type ProxyName,
  squidWithPassword,
  startProxy,
  tinyproxyWithPassword,
} from '../helpers/real-proxies.ts';

// These tests run the command and the service with proxies of other projects between them.

type Through = (host: string) => Promise<{ host: string; env?: Record<string, string> }>;

/** Starts a proxy for the service at `host`. Returns the host and environment for commands that use the proxy. */
const THROUGH: Record<ProxyName, Through> = {
  nginx: async (host) => ({ host: `127.0.0.1:${await startProxy('nginx', nginxInFront(host))}` }),
  haproxy: async (host) => ({ host: `127.0.0.1:${await startProxy('haproxy', haproxyInFront(host))}` }),
  squid: async (host) => forward(host, await startProxy('squid', squidWithPassword)),
  tinyproxy: async (host) => forward(host, await startProxy('tinyproxy', tinyproxyWithPassword)),
};

const forward = (host: string, port: number) => ({
  // The command never uses a proxy for loopback addresses. 0.0.0.0 is not one of them, but also reaches this machine.
  host: host.replace('127.0.0.1', ANY_ADDRESS),
  env: { http_proxy: `http://${PROXY_USER}:${PROXY_PASSWORD}@127.0.0.1:${port}`, PETS_ALLOW_HTTP: '1' },
});
const ANY_ADDRESS = '0.0.0.0';

const startService = async () =>
  serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile', '--allow-host', ANY_ADDRESS]);

for (const name of PROXY_NAMES) {
  test.skipIf(!hasProxy(name))(`list, add and get work through ${name}, with its password`, async () => {
    const service = await startService();
    const { host, env = {} } = await THROUGH[name](new URL(service.url).host);
    const machine = await freshMachine();
    await machine.saveProfile('prod', { baseUrl: `http://${host}/v1`, key: service.key });
    const pets = (args: readonly string[]) => machine.pets(args, { env });
    const listed = await pets(['list', '--all', '--json']);
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(listed.stdout)).toHaveLength(66);
    const added = await pets(['add', 'Rex', '--category', '3', '--json']);
    expect(added).toMatchObject({ code: 0 });
    const { id } = JSON.parse(added.stdout);
    expect(JSON.parse((await pets(['get', String(id), '--json'])).stdout)).toMatchObject({ name: 'Rex' });

    if (!env['http_proxy']) return;
    const https_proxy = env['http_proxy'].replace(PROXY_PASSWORD, 'wrong');
    const elsewhere = { PETS_BASE_URL: 'https://shop.invalid/v1', PETS_API_KEY: 'pets_k', https_proxy };
    const { code, stderr } = await machine.pets(['list'], { env: elsewhere });
    expect(code).toBe(6);
    expect(stderr).toContain('rejected the user and password in https_proxy (40');
  });
}

test.skipIf(!hasProxy('haproxy')).each(['option httpchk', 'option httpchk GET /healthz'])(
  'the service passes the health check %j of HAProxy',
  async (check) => {
    const { url } = await startService();
    const backend = `${check}\n  default-server check inter 100\n  stats uri /haproxy`;
    const port = await startProxy('haproxy', haproxyInFront(new URL(url).host, backend));
    const checkStatus = async () => {
      const statistics = await (await fetch(`http://127.0.0.1:${port}/haproxy;csv`)).text();
      const [names = [], ...rows] = statistics.split('\n').map((line) => line.split(','));
      const server = rows.find(([, name]) => name === 'service');
      // While a check is running, the status of the previous one follows an asterisk.
      return server?.[names.indexOf('check_status')]?.replace('* ', '') ?? '';
    };
    await expect.poll(checkStatus).toBe('L7OK');
  },
);
