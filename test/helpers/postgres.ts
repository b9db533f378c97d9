import { writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import { Client } from 'pg';
import { inject, onTestFinished } from 'vitest';
import { startListening } from './background-program.ts';
import { listenOnLoopback } from './listen.ts';
import { type Cluster, type ClusterOptions, createCluster, replicaName } from './postgres/cluster.ts';
import { type Databases, databasesAt, USER } from './postgres/databases.ts';

// PostgreSQL for tests named *.postgres.test.ts. Everything that these functions start ends after the test; databases
// in the shared server are used again.

export type { Cluster } from './postgres/cluster.ts';
export { PASSWORD, USER, USER_WITH_PASSWORD } from './postgres/databases.ts';
export { hasPgbouncer } from './postgres/programs.ts';

/** The server that all tests of a run share. Its data is lost if it is killed. */
export function sharedCluster(): Databases {
  const port = inject('postgresPort');
  if (port === undefined)
    throw new Error('PostgreSQL is not installed, or the file is not *.postgres.test.ts');
  return databasesAt(port);
}

/** The URLs of the databases of earlier tests. Emptying one takes 30 ms, and creating one 100 to 300 ms. */
const usedDatabases: string[] = [];

/** Returns the URL of an empty database in the shared server. */
export async function freshDatabase(): Promise<string> {
  const { createDatabase, emptyDatabase } = sharedCluster();
  const used = usedDatabases.pop();
  if (used !== undefined) await emptyDatabase(used);
  const url = used ?? (await createDatabase());
  // After a failed test, its code may still run, and use the database.
  onTestFinished(({ task }) => void (task.result?.state === 'pass' && usedDatabases.push(url)));
  return url;
}

/** Starts a server for this test, with fsync, so that committed data survives `kill9`. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const cluster = await createCluster(options);
  onTestFinished(() => cluster.remove());
  return cluster;
}

/** Starts a replica. The primary server waits for the replica at each commit. */
export async function startSynchronousReplica(primary: Cluster): Promise<Cluster> {
  const replica = await startCluster({ replicaOf: primary });
  await primary.set('synchronous_standby_names', replicaName(replica.port));
  for (;;) {
    const [row] = await primary.sql('postgres', "select from pg_stat_replication where sync_state = 'sync'");
    if (row) return replica;
  }
}

/**
 * An address that a test moves from one server to another, as DNS or a load balancer does after a failover.
 *
 * @param delay how much later data arrives in each direction, in milliseconds
 * @returns the address, and a function that moves it
 */
export async function movableAddress(first: Databases, delay = 0) {
  let target = first.port;
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    const upstream = connect(target, '127.0.0.1');
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      from.setNoDelay();
      open.add(from);
      from
        .on('error', () => {})
        .on('close', () => {
          open.delete(from);
          to.destroy();
        });
      if (delay > 0) from.pipe(delayData(delay)).pipe(to);
      else from.pipe(to);
    }
  });
  const { url, port } = databasesAt(await listenOnLoopback(server));
  /** Later connections lead to another server, and the present ones end. */
  const moveTo = (next: Databases) => {
    target = next.port;
    for (const socket of open) socket.destroy();
  };
  return { port, url, moveTo };
}

/** Starts pgbouncer in transaction mode. */
export async function startPgbouncer(upstream: Pick<Databases, 'port'>): Promise<Databases> {
  const configure = (port: number, directory: string) => {
    const users = join(directory, 'users');
    writeFileSync(users, `"${USER}" ""\n`);
    const all = {
      listen_addr: '127.0.0.1',
      listen_port: port,
      unix_socket_dir: '',
      auth_type: 'trust',
      auth_file: users,
      pool_mode: 'transaction',
      default_pool_size: 20,
      max_client_conn: 200,
      server_login_retry: 1,
    };
    const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}\n`);
    return `[databases]\n* = host=127.0.0.1 port=${upstream.port}\n[pgbouncer]\n${lines.join('')}`;
  };
  return databasesAt(await startListening('pgbouncer', configure, (file) => [file]));
}

/** A connection that ends after the test. */
export async function connectTo(connectionString: string): Promise<Client> {
  const client = new Client({ connectionString });
  client.on('error', () => {});
  await client.connect();
  // A paused server would not respond to `end`.
  onTestFinished(() => void client.connection.stream.destroy());
  return client;
}

const delayData = (delay: number): Transform =>
  new Transform({
    transform: (chunk, _encoding, done) => void setTimeout(() => done(null, chunk), delay),
  });
