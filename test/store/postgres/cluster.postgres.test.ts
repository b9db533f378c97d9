import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { databasesAt } from '../../helpers/postgres/databases.ts';
import {
  type Cluster,
  connectTo,
  freshDatabase,
  hasPgbouncer,
  movableAddress,
  PASSWORD,
  startCluster,
  startPgbouncer,
  startSynchronousReplica,
  USER_WITH_PASSWORD,
} from '../../helpers/postgres.ts';
import { AUTHORITY } from '../../helpers/tls-server.ts';

// These tests test the helpers that start PostgreSQL.

const insert = (cluster: Cluster, n: number) => cluster.sql('postgres', `insert into numbers values (${n})`);
const numbers = async (cluster: Cluster) =>
  (await cluster.sql('postgres', 'select n from numbers order by n')).map(({ n }) => n);

async function startWithTable(): Promise<Cluster> {
  const cluster = await startCluster();
  await cluster.sql('postgres', 'create table numbers (n int); grant all on numbers to pets');
  return cluster;
}

test('each test gets an empty database in which it may create a schema', async () => {
  for (const url of [await freshDatabase(), await freshDatabase()]) {
    const client = await connectTo(url);
    await client.query('create schema pets');
    await expect(client.query('create table public.animals (id int)')).rejects.toMatchObject({
      code: '42501',
    });
  }
});

test('committed data survives each way to restart a server', async () => {
  const cluster = await startWithTable();
  const ways = [
    () => cluster.restart('fast'),
    () => cluster.restart('immediate'),
    async () => {
      await cluster.kill9();
      await cluster.start();
    },
    async () => {
      await cluster.pause();
      await cluster.kill9();
      await cluster.start();
    },
  ];
  for (const [n, restart] of ways.entries()) {
    await insert(cluster, n);
    await restart();
  }
  expect(await numbers(cluster)).toEqual([0, 1, 2, 3]);
});

test('a server asks a certain user for the password, and accepts TLS with its certificate', async () => {
  const cluster = await startCluster({ certificate: 'localhost' });
  const url = new URL(cluster.url('postgres', USER_WITH_PASSWORD));
  await expect(connectTo(url.href)).rejects.toThrow(/password/);
  url.password = encodeURIComponent(PASSWORD);
  url.hostname = 'localhost';
  url.searchParams.set('sslmode', 'verify-full');
  url.searchParams.set('sslrootcert', AUTHORITY);
  const client = await connectTo(url.href);
  const { rows } = await client.query('select ssl from pg_stat_ssl where pid = pg_backend_pid()');
  expect(rows).toEqual([{ ssl: true }]);
});

test('a paused server does not respond, and a resumed one does', async () => {
  const cluster = await startWithTable();
  const client = await connectTo(cluster.url('postgres'));
  await cluster.pause();
  let hasResponded = false;
  const response = client.query('select 1').then(() => {
    hasResponded = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(hasResponded).toBe(false);
  cluster.resume();
  await response;
});

test('a killed backend ends its connection only, unless the signal is SIGKILL', async () => {
  const cluster = await startWithTable();
  const other = await connectTo(cluster.url('postgres'), 'other');
  const killed = await connectTo(cluster.url('postgres'), 'takes');
  const killedEnd = new Promise((resolve) => killed.once('end', resolve));
  expect(await cluster.killBackend('takes')).toBe(1);
  await killedEnd;
  await other.query('select 1');
  await connectTo(cluster.url('postgres'), 'takes');
  const otherEnd = new Promise((resolve) => other.once('end', resolve));
  expect(await cluster.killBackend('takes', 'SIGKILL')).toBe(1);
  await otherEnd;
});

test('a read-only server refuses writes on open connections, too', async () => {
  const cluster = await startWithTable();
  const client = await connectTo(cluster.url('postgres'));
  await cluster.setReadOnly(true);
  await expect(client.query('insert into numbers values (1)')).rejects.toMatchObject({ code: '25006' });
  await insert(cluster, 2);
  await cluster.setReadOnly(false);
  await client.query('insert into numbers values (3)');
  expect(await numbers(cluster)).toEqual([2, 3]);
});

test('a synchronous replica has each commit, and takes over the address after a failover', async () => {
  let primary = await startWithTable();
  const address = await movableAddress(primary);
  for (const n of [1, 2]) {
    const replica = await startSynchronousReplica(primary);
    const client = await connectTo(address.url('postgres'));
    await client.query(`insert into numbers values (${n})`);
    await expect(insert(replica, 9)).rejects.toMatchObject({ code: '25006' });
    const ended = new Promise((resolve) => client.once('end', resolve));
    await primary.kill9();
    await replica.promote();
    address.moveTo(replica);
    await ended;
    primary = replica;
  }
  const client = await connectTo(address.url('postgres'));
  await client.query('insert into numbers values (3)');
  expect(await numbers(primary)).toEqual([1, 2, 3]);
});

test.skipIf(!hasPgbouncer())('pgbouncer gives each transaction a connection', async () => {
  const cluster = await startWithTable();
  const { url } = await startPgbouncer(cluster, { default_pool_size: 1 });
  const clients = await Promise.all([connectTo(url('postgres')), connectTo(url('postgres'))]);
  const pids = await Promise.all(
    clients.map(async (client) => (await client.query('select pg_backend_pid()')).rows),
  );
  expect(pids[0]).toEqual(pids[1]);
});

test('a server ends and its directory is removed after the process that started it was killed', async () => {
  const module = join(import.meta.dirname, '../../helpers/postgres/cluster.ts');
  const script = `
    import { createCluster } from ${JSON.stringify(module)};
    const { directory, port } = await createCluster();
    console.log(JSON.stringify({ directory, port }));
  `;
  const argv = ['--import', 'tsx', '--input-type=module', '--eval', script];
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = await once(child.stdout, 'data');
  const { directory, port } = JSON.parse(line);
  child.kill('SIGKILL');
  await expect.poll(() => existsSync(directory)).toBe(false);
  await expect(databasesAt(port).sql('postgres', 'select 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
});
