import { connect, createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { inventoryWithAbsoluteLinks } from '../helpers/express.ts';
import { lastError } from '../helpers/failure.ts';
import { closedPort, listenOnLoopback } from '../helpers/listen.ts';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';
import {
  haproxyInFront,
  hasProxy,
  nginxInFront,
  PROXY_NAMES,
  PROXY_PASSWORD,
  PROXY_USER,
  type ProxyName,
  squid,
  squidWithPassword,
  startProxy,
  startProxyWithLog,
  tinyproxy,
  tinyproxyWithPassword,
} from '../helpers/real-proxies.ts';

// These tests run the command and the service with proxies of other projects between them.

/** Starts a proxy for the service at `host`. Returns the host and environment for commands that use the proxy. */
const THROUGH: Record<ProxyName, (host: string) => Promise<{ host: string; env: Record<string, string> }>> = {
  nginx: async (host) => reverse(await startProxy('nginx', nginxInFront(host))),
  haproxy: async (host) => reverse(await startProxy('haproxy', haproxyInFront(host))),
  squid: async (host) => forward(host, await startProxy('squid', squid())),
  tinyproxy: async (host) => forward(host, await startProxy('tinyproxy', tinyproxy())),
};

const reverse = (port: number) => ({ host: `127.0.0.1:${port}`, env: {} });
const forward = (host: string, port: number) => ({
  // The command never uses a proxy for loopback addresses. 0.0.0.0 is not one of them, but also reaches this machine.
  host: host.replace('127.0.0.1', ANY_ADDRESS),
  env: { http_proxy: `http://127.0.0.1:${port}`, PETS_ALLOW_HTTP: '1' },
});
const ANY_ADDRESS = '0.0.0.0';

const startService = async () =>
  serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile', '--allow-host', ANY_ADDRESS]);

/** Relays connections to the port that `target` returns. Closes a connection if nothing listens on that port. */
async function startRelay(target: () => string): Promise<number> {
  const server = createServer((socket) => {
    const upstream = connect(Number(target()), '127.0.0.1');
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ] as const)
      from.on('error', () => to.destroy()).pipe(to);
  });
  return listenOnLoopback(server);
}

/** A machine whose profile prod points to a service at `host`. */
async function machineFor(host: string, key = 'pets_k', scheme = 'http'): Promise<Machine> {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: `${scheme}://${host}/v1`, key });
  return machine;
}

describe.each(PROXY_NAMES)('through %s', (name) => {
  test.skipIf(!hasProxy(name))('list, add and get work', async () => {
    const service = await startService();
    const { host, env } = await THROUGH[name](new URL(service.url).host);
    const machine = await machineFor(host, service.key);
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

describe.skipIf(!hasProxy('nginx'))('through nginx', () => {
  test('compressed lists are read', async () => {
    const service = await startService();
    const gzip = 'gzip on; gzip_min_length 1; gzip_proxied any; gzip_types application/json;';
    const port = await startProxy('nginx', nginxInFront(new URL(service.url).host, gzip));
    const machine = await machineFor(`127.0.0.1:${port}`, service.key);
    const listed = await machine.pets(['list', '--all', '--json', '--debug']);
    expect(JSON.parse(listed.stdout)).toHaveLength(66);
    expect(JSON.parse(listed.stderr.split('\n')[0] ?? '').debug).toMatchObject({
      request: { 'Accept-Encoding': 'gzip', 'User-Agent': expect.stringMatching(/^pets\/\d/) },
      headers: { 'content-encoding': 'gzip' },
    });
  });

  test('a listing and a creation survive a restart of the service', async () => {
    const shop = await freshMachine();
    const start = () => serve(shop, ['--seed']);
    let service = await start();
    const relay = await startRelay(() => new URL(service.url).port);
    const port = await startProxy('nginx', nginxInFront(`127.0.0.1:${relay}`));
    const machine = await machineFor(`127.0.0.1:${port}`, service.key);
    for (const args of [
      ['list', '--all', '--json'],
      ['add', 'Rex', '--category', '3', '--json'],
    ]) {
      // Show the command that the service supports idempotency keys, which makes it safe to retry a creation.
      expect((await machine.pets(['list'])).code).toBe(0);
      await service.end('SIGTERM');
      const waits: number[] = [];
      const { code, stdout, stderr } = await machine.pets(args, {
        async sleep(milliseconds) {
          waits.push(milliseconds);
          if (waits.length === 5) service = await start();
        },
      });
      expect([code, waits.length]).toEqual([0, 5]);
      expect(waits.reduce((sum, wait) => sum + wait, 0)).toBeLessThanOrEqual(15_000);
      expect(stderr.match(/"wait":\{"reason":"server error"/g)).toHaveLength(5);
      expect(JSON.parse(stdout)).toMatchObject(args[0] === 'add' ? { name: 'Rex' } : { length: 66 });
    }
  });

  test('links to the address of the service behind it are followed', async () => {
    const host = await inventoryWithAbsoluteLinks();
    const machine = await machineFor(`127.0.0.1:${await startProxy('nginx', nginxInFront(host))}`);
    const listed = await machine.pets(['list', '--all', '--json', '--debug']);
    expect(JSON.parse(listed.stdout)).toHaveLength(3);
    expect(listed.stderr).not.toContain(`"url":"http://${host}`);
  });

  test.each([
    ['413', ['add', 'Rex', '--category', '3'], 'client_max_body_size 1;', 7, 'Request Entity Too Large'],
    ['502', ['add', 'Rex', '--category', '3'], '', 6, 'Bad Gateway'],
    ['502', ['list'], '', 7, 'Bad Gateway'],
  ])('its own error %s is shown, for %j', async (status, argv, location, exitCode, text) => {
    const closed = `127.0.0.1:${await closedPort()}`;
    const machine = await machineFor(
      `127.0.0.1:${await startProxy('nginx', nginxInFront(closed, location))}`,
    );
    const { code, stderr } = await machine.pets([...argv, '--no-retry', '--json']);
    const { message, mayHaveBeenAdded } = lastError({ stderr }) as Record<string, unknown>;
    expect(code).toBe(exitCode);
    expect(message).toContain(`HTTP status ${status} (Content-Type: text/html): ${status} ${text} nginx`);
    expect(mayHaveBeenAdded).toBe(exitCode === 6 ? true : undefined);
  });
});

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
    await expect.poll(checkStatus).toMatch(/^L7/);
    expect(await checkStatus()).toBe('L7OK');
  },
);

describe.each([
  ['squid', squidWithPassword],
  ['tinyproxy', tinyproxyWithPassword],
] as const)('%s with a password', (name, configuration) => {
  test.skipIf(!hasProxy(name)).each([
    ['no password is set', '', (proxy: string) => `the proxy ${proxy} requires a user and password (407)`],
    [
      'the password is wrong',
      `${PROXY_USER}:hunter3@`,
      (proxy: string) => `the proxy ${proxy} rejected the user and password in https_proxy (40`,
    ],
  ])('gets one request if %s, and the error explains it', async (_when, user, message) => {
    const { port, endAndReadLog } = await startProxyWithLog(name, configuration);
    const proxy = `127.0.0.1:${port}`;
    const machine = await machineFor('shop.invalid', 'pets_k', 'https');
    const env = { https_proxy: `http://${user}${proxy}` };
    const { code, stderr } = await machine.pets(['list'], { env });
    expect(code).toBe(6);
    expect(stderr).toContain(message(proxy));
    expect(stderr).toContain(user === '' ? `set https_proxy to http://USER:PASSWORD@${proxy};` : '');
    expect(stderr).not.toContain('hunter3');
    expect((await endAndReadLog()).match(/CONNECT shop\.invalid:443/g)).toHaveLength(1);
  });

  test.skipIf(!hasProxy(name))('accepts the user and password in http_proxy', async () => {
    const service = await startService();
    const { port, endAndReadLog } = await startProxyWithLog(name, configuration);
    const { host, env } = forward(new URL(service.url).host, 0);
    const machine = await machineFor(host, service.key);
    const http_proxy = `http://${PROXY_USER}:${PROXY_PASSWORD}@127.0.0.1:${port}`;
    const { code, stdout } = await machine.pets(['list', '--json'], { env: { ...env, http_proxy } });
    expect([code, JSON.parse(stdout).length]).toEqual([0, 20]);
    expect(await endAndReadLog()).toContain(`GET http://${host}/v1/pets`);
  });
});

test.skipIf(!hasProxy('squid'))('an error page of squid is shown, and the hint names the proxy', async () => {
  const proxy = `127.0.0.1:${await startProxy('squid', squid())}`;
  const host = `${ANY_ADDRESS}:${await closedPort()}`;
  const env = { http_proxy: `http://${proxy}`, PETS_ALLOW_HTTP: '1' };
  const { code, stderr } = await (await machineFor(host)).pets(['list', '--no-retry'], { env });
  expect(code).toBe(7);
  expect(stderr).toContain(`${host}: HTTP status 503 (Content-Type: text/html): ERROR The requested URL`);
  expect(stderr).toContain(`the response may come from the proxy ${proxy}; try again later`);
});
