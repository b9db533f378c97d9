import { expect } from 'vitest';
import { readDocument } from '../../helpers/documents.ts';
import { listAllPets } from '../../helpers/list-all-pets.ts';
import { freshMachine, serveCommand } from '../../helpers/pets.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { nginxServer, startProxy } from '../../helpers/real-proxies.ts';
import { testIfInstalled } from '../../helpers/skip.ts';

// These tests run three servers on one database, which clients reach through the load balancers of docs/deploy.md.

const FILES = { haproxy: 'docs/examples/haproxy.cfg', nginx: 'docs/examples/nginx.conf' };

/** The options of servers behind a load balancer. */
const SERVE = [
  ...['--no-profile', '--log'],
  ...['--public-url', 'https://shop.example', '--trust-proxy', '127.0.0.1'],
];

type ServerProcess = Awaited<ReturnType<typeof serveCommand>>;

/** Three servers that start at the same time on an empty database, and a key with practically no limits. */
async function startServers(data: string) {
  const machine = await freshMachine();
  const start = () => serveCommand(machine, [...SERVE, '--data', data, '--seed']);
  const servers = await Promise.all([start(), start(), start()]);
  const added = await machine.pets(['keys', 'add', 'shop', '--plan', 'enterprise', '--data', data, '--json']);
  expect(added.code, added.stderr).toBe(0);
  return { machine, servers, key: JSON.parse(added.stdout).key as string };
}

/** Starts a load balancer with the configuration of the document. Returns the base URL of the service. */
async function startBalancer(name: 'nginx' | 'haproxy', servers: readonly ServerProcess[]): Promise<string> {
  const text = servers.reduce(
    (result, { url }, i) => result.replaceAll(`10.0.0.1${i + 1}:7387`, new URL(url).host),
    readDocument(FILES[name]).text,
  );
  // TLS is not the subject of these tests; test/e2e/documents.slow.test.ts uses nginx with TLS.
  const [upstream = '', server = ''] = text.replace(/ +ssl_.*\n/g, '').split(/^server \{$/m);
  const port = await startProxy(
    name,
    name === 'haproxy'
      ? (port) => text.replace('bind :80', `bind 127.0.0.1:${port}`)
      : nginxServer(
          (port) => server.replace('listen 443 ssl', `listen 127.0.0.1:${port}`).replace(/\}\n$/, ''),
          upstream,
        ),
  );
  return `http://127.0.0.1:${port}/v1`;
}

/** How many requests a server has logged whose log entry contains this text. */
const countRequests = (server: ServerProcess, text: string): number =>
  server
    .stderr()
    .split('\n')
    .filter((line) => line.includes(text)).length;

for (const name of ['haproxy', 'nginx'] as const) {
  testIfInstalled(name)(
    `three servers behind ${name} add every row exactly once while they are replaced, one after SIGKILL`,
    async () => {
      const data = await freshDatabase();
      const { machine, servers, key } = await startServers(data);
      const url = await startBalancer(name, servers);
      expect((await fetch(new URL('/metrics', url))).status).toBe(404);

      const client = await freshMachine();
      await client.saveProfile('prod', { baseUrl: url, key });
      const names: string[] = [];
      let replaced = false;
      // Imports one file after the other, so that an import always runs while a server is replaced, however fast it is.
      const importAll = async (): Promise<void> => {
        for (let fileNumber = 1; !replaced; fileNumber++) {
          const added = Array.from({ length: 500 }, (_, i) => `animal ${fileNumber}-${i + 1}`);
          const rows = added.map((each) => `${each},7\n`).join('');
          const file = await client.file(`animals-${fileNumber}.csv`, `name,category\n${rows}`);
          expect(await client.pets(['import', file, '--json'])).toMatchObject({ code: 0 });
          names.push(...added);
        }
      };
      const replaceAll = async (): Promise<void> => {
        for (const [i, server] of servers.entries()) {
          await expect.poll(() => countRequests(server, '"POST"')).toBeGreaterThan(20);
          await server.end(i === 0 ? 'SIGKILL' : 'SIGTERM');
          const { port } = new URL(server.url);
          // `serveCommand` also passes --port 0. The last --port applies.
          const started = await serveCommand(machine, [...SERVE, '--data', data, '--port', port]);
          await expect.poll(() => countRequests(started, '"POST"')).toBeGreaterThan(20);
        }
      };
      const replacing = replaceAll().finally(() => {
        replaced = true;
      });
      await Promise.all([importAll(), replacing]);
      const listed = (await listAllPets({ url, key })).filter((pet) => pet.name.startsWith('animal '));
      expect(listed.map((pet) => pet.name).sort()).toEqual(names.sort());
    },
  );
}
