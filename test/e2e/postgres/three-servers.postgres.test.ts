import { describe, expect, test } from 'vitest';
import { readDocument } from '../../helpers/documents.ts';
import { listAllPets } from '../../helpers/list-all-pets.ts';
import { freshMachine, type Machine, serveCommand } from '../../helpers/pets.ts';
import { freshDatabase, hasPgbouncer, startCluster, startPgbouncer } from '../../helpers/postgres.ts';
import { hasProxy, nginxServer, startProxy } from '../../helpers/real-proxies.ts';
import { createSpecificationCheck, specificationCases } from '../../helpers/specification.ts';

// These tests run three servers on one database, which clients reach through the load balancers of docs/deploy.md.

const FILES = { haproxy: 'docs/examples/haproxy.cfg', nginx: 'docs/examples/nginx.conf' };
const SAMPLE_ANIMALS = 66;

/** The options of servers behind a load balancer. */
const SERVE = [
  ...['--no-profile', '--log'],
  ...['--public-url', 'https://shop.example', '--trust-proxy', '127.0.0.1'],
];

type ServerProcess = Awaited<ReturnType<typeof serveCommand>>;
type Servers = readonly [ServerProcess, ServerProcess, ServerProcess];

/** Three servers that start at the same time on an empty database, and a key with practically no limits. */
async function startServers(data: string) {
  const machine = await freshMachine();
  const start = () => serveCommand(machine, [...SERVE, '--data', data, '--seed']);
  const servers = await Promise.all([start(), start(), start()]);
  const addKey = async (name: string, ...options: string[]): Promise<string> => {
    const added = await machine.pets(['keys', 'add', name, ...options, '--data', data, '--json']);
    expect(added).toMatchObject({ code: 0 });
    return JSON.parse(added.stdout).key;
  };
  return { machine, servers, addKey, key: await addKey('shop', '--plan', 'enterprise') };
}

/** Starts a load balancer with the configuration of the document. Returns the base URL of the service. */
async function startBalancer(name: 'nginx' | 'haproxy', servers: Servers): Promise<string> {
  const [first, second, third] = servers;
  const hostOf = ({ url }: ServerProcess) => new URL(url).host;
  const text = [first, second, third].reduce(
    (result, server, i) => result.replaceAll(`10.0.0.1${i + 1}:7387`, hostOf(server)),
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

/** A machine whose profile prod is logged in to the service. */
async function loggedInMachine(baseUrl: string, key: string): Promise<Machine> {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl, key });
  return machine;
}

async function createPet(url: string, key: string, idempotencyKey: string) {
  const response = await fetch(`${url}/pets`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${key}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': `"${idempotencyKey}"`,
    },
    body: '{"name":"Rex","categoryId":3}',
  });
  const isReplayed = response.headers.get('idempotency-replayed') === 'true';
  return { status: response.status, isReplayed, text: await response.text() };
}

/** If a server closes a connection while HAProxy uses it again, HAProxy closes that of its client, who has to repeat. */
function isDropped(error: unknown): { status: 502; text: string } {
  expect(error).toMatchObject({ cause: { message: 'other side closed' } });
  return { status: 502, text: '' };
}

const get = (url: string, key: string) => fetch(url, { headers: { Authorization: `Bearer ${key}` } });

/** How many requests a server has logged whose log entry contains this text. */
const countRequests = (server: ServerProcess, text: string): number =>
  server
    .stderr()
    .split('\n')
    .filter((line) => line.includes(text)).length;

describe.each(['haproxy', 'nginx'] as const)('three servers behind %s', (name) => {
  const testBehind = test.skipIf(!hasProxy(name));

  testBehind('respond as the specification describes', async () => {
    const { servers, addKey } = await startServers(await freshDatabase());
    const url = await startBalancer(name, servers);
    const check = await createSpecificationCheck({
      url,
      key: await addKey('business', '--plan', 'business'),
    });
    for (const each of specificationCases) await check(each);
    for (const server of servers) expect(countRequests(server, '/v1/')).toBeGreaterThanOrEqual(2);
    expect((await fetch(new URL('/metrics', url))).status).toBe(404);
  });

  testBehind('add every row of a file exactly once, although one of them is killed', async () => {
    const { servers, key } = await startServers(await freshDatabase());
    const url = await startBalancer(name, servers);
    const machine = await loggedInMachine(url, key);
    const names = Array.from({ length: 300 }, (_, i) => `animal ${i + 1}`);
    const file = await machine.file(
      'animals.csv',
      `name,category\n${names.map((each) => `${each},7\n`).join('')}`,
    );
    const adding = machine.pets(['import', file, '--json']);
    const [killed, ...others] = servers;
    await new Promise<void>((resolve) => {
      killed.child.stderr?.on('data', () => countRequests(killed, '"POST"') >= 20 && resolve());
    });
    await killed.end('SIGKILL');
    expect(await adding).toMatchObject({ code: 0 });
    const listed = await listAllPets({ url, key });
    expect(
      listed
        .slice(SAMPLE_ANIMALS)
        .map((pet) => pet.name)
        .sort(),
    ).toEqual([...names].sort());
    expect(countRequests(killed, '"POST"')).toBeLessThan(names.length / 3);
    for (const server of others) expect(countRequests(server, '"POST"')).toBeGreaterThan(20);
  });

  testBehind('add each animal once while they are replaced one after the other', async () => {
    const data = await freshDatabase();
    const { machine, servers, key } = await startServers(data);
    const url = await startBalancer(name, servers);
    const ids: number[] = [];
    let isReplaced = false;
    const addUntilReplaced = async (client: number) => {
      for (let i = 0; !isReplaced; i++) {
        for (;;) {
          const { status, text } = await createPet(url, key, `rex-${client}-${i}`).catch(isDropped);
          if (status === 201) ids.push(JSON.parse(text).id);
          if (status === 201) break;
          // A connection that a stopping server has not accepted yet is reset, and a starting server is not ready yet.
          if (status !== 502) expect(JSON.parse(text).code).toBe('starting');
        }
      }
    };
    const clients = Array.from({ length: 8 }, (_, client) => addUntilReplaced(client));
    for (const server of servers) {
      await expect.poll(() => countRequests(server, '"POST"')).toBeGreaterThan(20);
      expect(await server.end('SIGTERM')).toEqual({ code: 0, signal: null });
      const { port } = new URL(server.url);
      // The last --port applies.
      const started = await serveCommand(machine, [...SERVE, '--data', data, '--port', port]);
      await expect.poll(() => countRequests(started, '"POST"')).toBeGreaterThan(20);
    }
    isReplaced = true;
    await Promise.all(clients);
    const listed = (await listAllPets({ url, key })).slice(SAMPLE_ANIMALS);
    expect(listed.map(({ id }) => id)).toEqual(ids.sort((x, y) => x - y));
  });
});

test.skipIf(!hasPgbouncer())('a server behind pgbouncer does not start without prepare=off', async () => {
  const cluster = await startCluster();
  const pgbouncer = await startPgbouncer(cluster);
  const url = pgbouncer.url(new URL(await cluster.createDatabase()).pathname.slice(1));
  const { code, stderr } = await (await freshMachine()).pets(['serve', '--port', '0', '--data', url]);
  expect(code).toBe(1);
  expect(stderr).toContain('unsupported startup parameter');
  expect(stderr).toContain('prepare=off');
});

test.skipIf(!hasPgbouncer())('three servers work through pgbouncer in transaction mode', async () => {
  const cluster = await startCluster();
  const name = new URL(await cluster.createDatabase()).pathname.slice(1);
  // docs/postgres.md describes these settings.
  for (const setting of ["statement_timeout = '1.5s'", "lock_timeout = '1.4s'"]) {
    await cluster.sql('postgres', `alter role pets set ${setting}`);
  }
  const pgbouncer = await startPgbouncer(cluster);
  const { servers, addKey } = await startServers(`${pgbouncer.url(name)}?prepare=off`);
  const key = await addKey('business', '--plan', 'business');
  for (const { url } of servers) {
    const check = await createSpecificationCheck({ url, key });
    for (const each of specificationCases) await check(each);
  }
});

test('a creation that is repeated on another server is replayed', async () => {
  const { servers, key } = await startServers(await freshDatabase());
  const [first, ...others] = await Promise.all(servers.map(({ url }) => createPet(url, key, 'rex-1')));
  for (const { text } of others) expect(text).toBe(first?.text);
  const repeated = await Promise.all(servers.map(({ url }) => createPet(url, key, 'rex-1')));
  for (const each of repeated) expect(each).toEqual({ status: 201, isReplayed: true, text: first?.text });
  expect(await listAllPets({ url: servers[0].url, key })).toHaveLength(SAMPLE_ANIMALS + 1);
});

test.skipIf(!hasProxy('haproxy'))(
  'while the database is down, clients of HAProxy get the response of a server',
  async () => {
    const cluster = await startCluster();
    const { servers, key } = await startServers(await cluster.createDatabase());
    const url = await startBalancer('haproxy', servers);
    const answer = async () => {
      const response = await get(`${url}/pets?limit=1`, key);
      const code = /"code":"(\w+)"/.exec(await response.text())?.[1];
      return [response.status, code, response.headers.get('retry-after')];
    };
    expect(await answer()).toEqual([200, undefined, null]);
    await cluster.stop('immediate');
    // From its third check on, HAProxy knows that no server is ready.
    for (const server of servers) {
      await expect.poll(() => countRequests(server, '"status":503')).toBeGreaterThan(2);
    }
    expect(await answer()).toEqual([503, 'storage_unreachable', '1']);
    await cluster.start();
    await expect.poll(answer).toEqual([200, undefined, null]);
  },
);
