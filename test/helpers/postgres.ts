import { connect, createServer, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { Client } from 'pg';
import { inject, onTestFinished } from 'vitest';
import type { Clock } from '../../src/contract/clock.ts';
import { parseLocation } from '../../src/store/location.ts';
import { listenOnLoopback } from './listen.ts';
import { type Cluster, type ClusterOptions, createCluster, replicaName } from './postgres/cluster.ts';
import { type Databases, databasesAt } from './postgres/databases.ts';
import { createPgbouncer } from './postgres/pgbouncer.ts';

// PostgreSQL for tests named *.postgres.test.ts. Everything that these functions start ends after the test.

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

/** Creates an empty database in the shared server. Returns its URL. */
export async function freshDatabase(): Promise<string> {
  const { createDatabase, dropDatabase } = sharedCluster();
  const url = await createDatabase();
  onTestFinished(() => dropDatabase(url));
  return url;
}

/** Creates an empty database in the shared server, and a location in which the database has the time of `clock`. */
export async function freshLocation(clock: Clock) {
  const url = await freshDatabase();
  const location = await parseLocation(url, {
    clock,
    env: {},
    userName: undefined,
    random: () => 0.5,
    testTime: clock.now,
  });
  return { url, location };
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
 * @returns the server at the address
 */
export async function movableAddress(first: Databases, delay = 0) {
  const { server, moveTo } = createMovableRelay(first.port, delay);
  const { url, port } = databasesAt(await listenOnLoopback(server));
  return { port, url, moveTo: (next: Databases) => moveTo(next.port) };
}

/** Starts a pgbouncer in transaction mode. `settings` are those of its section `pgbouncer`. */
export async function startPgbouncer(
  upstream: Pick<Databases, 'port'>,
  settings?: Record<string, string | number>,
): Promise<{ port: number; url: Databases['url'] }> {
  const { remove, ...pgbouncer } = await createPgbouncer(upstream, settings);
  onTestFinished(remove);
  return pgbouncer;
}

/** A connection that ends after the test. */
export async function connectTo(connectionString: string, applicationName?: string): Promise<Client> {
  const client = new Client({
    connectionString,
    ...(applicationName && { application_name: applicationName }),
  });
  client.on('error', () => {});
  await client.connect();
  // A paused server would not respond to `end`.
  onTestFinished(() => void client.connection.stream.destroy());
  return client;
}

/** A TCP server that relays connections to a port. `moveTo` changes the port, and ends the present connections. */
function createMovableRelay(firstPort: number, delay: number) {
  let target = firstPort;
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
  return {
    server,
    moveTo(port: number) {
      target = port;
      for (const socket of open) socket.destroy();
    },
  };
}

const delayData = (delay: number): Transform =>
  new Transform({
    transform: (chunk, _encoding, done) => void setTimeout(() => done(null, chunk), delay),
  });
