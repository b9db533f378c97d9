import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, DatabaseError } from 'pg';
import {
  freeServerPort,
  guardedDirectory,
  hasEnded,
  startProgram,
  waitUntilReady,
} from '../background-program.ts';
import { databasesAt, PASSWORD, SUPERUSER, USER, USER_WITH_PASSWORD } from './databases.ts';
import { findPostgres, runToEnd } from './programs.ts';

/** Server parameters, such as `{ max_connections: 20 }`. */
type Settings = Record<string, string | number>;

export type ClusterOptions = {
  settings?: Settings;
  /** Makes the server a streaming replica of the server on this port. The replication is asynchronous at first. */
  replicaOf?: { port: number };
};

export type Cluster = Awaited<ReturnType<typeof createCluster>>;

/** Starts a new PostgreSQL server. The caller removes it. */
export async function createCluster(options: ClusterOptions = {}) {
  const installation = findPostgres();
  if (!installation) throw new Error('PostgreSQL 15 or newer is not installed');
  const { path: directory, remove: removeDirectory } = await guardedDirectory();
  const port = await freeServerPort();
  const { directory: programs } = installation;
  const data = await createDataDirectory(programs, directory, port, options);
  const databases = databasesAt(port);
  const { sql } = databases;
  const superuserUrl = databases.url('postgres', SUPERUSER);
  let server: ChildProcess;
  /** The processes that `pause` has stopped. */
  let paused: number[] = [];

  const untilReady = () => waitUntilReady(server, directory, () => acceptsConnections(superuserUrl));
  await start();
  if (!options.replicaOf) {
    const withPassword = `create role ${USER_WITH_PASSWORD} login password '${PASSWORD}'`;
    await sql('postgres', `create role ${USER} login; ${withPassword}`);
  }

  async function start(): Promise<void> {
    server = startProgram(directory, join(programs, 'postgres'), ['-D', data]);
    try {
      await untilReady();
    } catch (error) {
      // The processes of a killed server may not have ended yet.
      if (!String(error).includes('is still in use')) throw error;
      await start();
    }
  }

  async function stop(): Promise<void> {
    resume();
    await end('SIGINT');
  }

  async function end(signal: NodeJS.Signals) {
    if (hasEnded(server)) return;
    const ended = once(server, 'exit');
    server.kill(signal);
    await ended;
  }

  async function pause(): Promise<void> {
    // If a backend was killed with SIGKILL, the server may still be restarting.
    await untilReady();
    const { pid = 0 } = server;
    server.kill('SIGSTOP');
    while (!/^State:\s*T/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))) await sleep(1);
    // The server starts no process any more. This list also has processes that are not yet in pg_stat_activity.
    paused = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
    signalAll(paused, 'SIGSTOP');
  }

  function resume(): void {
    signalAll(paused, 'SIGCONT');
    paused = [];
    server.kill('SIGCONT');
  }

  async function set(name: string, value: string): Promise<void> {
    const loadTime = async () =>
      (await sql('postgres', 'select pg_conf_load_time()::text as time'))[0]?.['time'];
    const before = await loadTime();
    await sql('postgres', `alter system set ${name} = ${literal(value)}`);
    await sql('postgres', 'select pg_reload_conf()');
    while ((await loadTime()) === before) await sleep(5);
  }

  return {
    ...databases,
    /** The directory of the Unix socket. */
    directory,
    /** Ends all sessions, and then the server. */
    stop,
    /** Starts the server on the same port, and waits until it accepts connections. */
    start,
    restart: () => stop().then(start),
    /** Kills all processes of the server at once, as a failure of the machine does. */
    async kill9(): Promise<void> {
      if (hasEnded(server)) return;
      if (paused.length === 0) await pause();
      const processes = paused;
      paused = [];
      const ended = end('SIGKILL');
      signalAll(processes, 'SIGKILL');
      await ended;
    },
    /** Stops all processes of the server with SIGSTOP: connections stay open, and nothing responds. */
    pause,
    resume,
    /** Sets a parameter, and waits until new connections have it. Some parameters apply only after the next restart. */
    set,
    /** Makes all transactions read-only by default, even those of open connections. */
    setReadOnly: (isReadOnly: boolean) => set('default_transaction_read_only', isReadOnly ? 'on' : 'off'),
    /** Ends the recovery of a replica, which becomes a primary server. */
    promote: () => sql('postgres', 'select pg_promote()'),
    /** Ends the server without a checkpoint, and removes its directory. */
    async remove(): Promise<void> {
      resume();
      await end('SIGQUIT');
      await removeDirectory();
    },
  };
}

const literal = (text: string | number): string => `'${String(text).replaceAll("'", "''")}'`;

/** Whether the server accepts connections. It does if it reports an error, unless the error is "starting up". */
async function acceptsConnections(connectionString: string): Promise<boolean> {
  const client = new Client({ connectionString });
  client.on('error', () => {});
  try {
    await client.connect();
    return true;
  } catch (error) {
    return error instanceof DatabaseError && error.code !== STARTING_UP;
  } finally {
    await client.end();
  }
}

const STARTING_UP = '57P03';

/** Sends a signal to those of the processes that exist. Returns their number. */
function signalAll(processes: readonly number[], signal: NodeJS.Signals): number {
  return processes.filter((pid) => {
    try {
      return process.kill(pid, signal);
    } catch {
      return false;
    }
  }).length;
}

/**
 * Creates the directory `data` of a server below `directory`.
 *
 * @param programs the directory of the programs of PostgreSQL
 */
async function createDataDirectory(
  programs: string,
  directory: string,
  port: number,
  { settings, replicaOf }: ClusterOptions,
): Promise<string> {
  const data = join(directory, 'data');
  const run = (program: string, ...options: string[]) => {
    const common = [`--pgdata=${data}`, `--username=${SUPERUSER}`, '--no-sync'];
    return runToEnd(join(programs, program), [...common, ...options], directory);
  };
  if (replicaOf) {
    const primary = ['--host=127.0.0.1', `--port=${replicaOf.port}`];
    await run('pg_basebackup', ...primary, '--write-recovery-conf', '--checkpoint=fast');
  } else {
    await run('initdb', '--auth=trust', '--no-locale', '--encoding=UTF8', '--no-instructions');
    // The server checks the password of one role. All others connect from this machine without a password.
    const file = join(data, 'pg_hba.conf');
    const rules = await readFile(file, 'utf8');
    await writeFile(file, `host all ${USER_WITH_PASSWORD} all scram-sha-256\n${rules}`);
  }
  const settingsOfReplica = replicaOf && {
    primary_conninfo: `user=${SUPERUSER} host=127.0.0.1 port=${replicaOf.port} application_name=${replicaName(port)}`,
  };
  const all = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: directory,
    max_connections: 200,
    shared_buffers: '32MB',
    // Without this setting, a primary server may remove log records that a stopped replica has not received.
    wal_keep_size: '256MB',
    // By default, a replica waits 5 s before it tries to connect again.
    wal_retrieve_retry_interval: '100ms',
    synchronous_standby_names: '',
    ...settingsOfReplica,
    ...settings,
  };
  // In the file of ALTER SYSTEM, later lines override earlier ones.
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${literal(value)}\n`);
  await appendFile(join(data, 'postgresql.auto.conf'), lines.join(''));
  return data;
}

/** The application name of the replica that listens on this port. */
export const replicaName = (port: number): string => `replica_${port}`;
