import { appendFile, chmod, chown, copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Certificate, TLS_DIRECTORY } from '../tls-server.ts';
import { SUPERUSER, USER_WITH_PASSWORD } from './databases.ts';
import { runToEnd, unprivilegedIdentity } from './programs.ts';

/** Server parameters, such as `{ max_connections: 20 }`. */
export type Settings = Record<string, string | number>;

export type ClusterOptions = {
  settings?: Settings;
  /** Makes the server accept TLS, with this certificate of test/helpers/tls. */
  certificate?: Certificate;
  /** Makes the server a streaming replica of the server on this port. The caller makes the replication synchronous. */
  replicaOf?: { port: number };
};

/**
 * Creates the directory `data` of a server below `directory`.
 *
 * @param programs the directory of the programs of PostgreSQL
 */
export async function createDataDirectory(
  programs: string,
  directory: string,
  port: number,
  { settings, certificate, replicaOf }: ClusterOptions,
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
    await requirePassword(data);
  }
  const settingsOfReplica = replicaOf && {
    primary_conninfo: `user=${SUPERUSER} host=127.0.0.1 port=${replicaOf.port} application_name=${replicaName(port)}`,
  };
  await writeSettings(data, {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: directory,
    max_connections: 200,
    shared_buffers: '32MB',
    // The primary server keeps what a stopped replica has not received.
    wal_keep_size: '256MB',
    // By default, a replica waits 5 s before it tries to connect again.
    wal_retrieve_retry_interval: '100ms',
    synchronous_standby_names: '',
    ...settingsOfReplica,
    ...(certificate && (await copyCertificate(data, certificate))),
    ...settings,
  });
  return data;
}

/** The application name of the replica that listens on this port. */
export const replicaName = (port: number): string => `replica_${port}`;

/** Makes the server check the password of one user. Everyone else on this machine connects without a password. */
async function requirePassword(data: string): Promise<void> {
  const file = join(data, 'pg_hba.conf');
  const rules = await readFile(file, 'utf8');
  await writeFile(file, `host all ${USER_WITH_PASSWORD} all scram-sha-256\n${rules}`);
}

/** Writes parameters into the file of ALTER SYSTEM, in which later lines override earlier ones. */
async function writeSettings(data: string, settings: Settings): Promise<void> {
  const lines = Object.entries(settings).map(
    ([name, value]) => `${name} = '${String(value).replaceAll("'", "''")}'\n`,
  );
  await appendFile(join(data, 'postgresql.auto.conf'), lines.join(''));
}

async function copyCertificate(data: string, certificate: Certificate): Promise<Settings> {
  const [key, file] = ['server.key', `${certificate}.pem`];
  const { uid, gid } = unprivilegedIdentity();
  for (const name of [key, file]) {
    const copy = join(data, name);
    await copyFile(join(TLS_DIRECTORY, name), copy);
    if (uid !== undefined && gid !== undefined) await chown(copy, uid, gid);
    // PostgreSQL refuses a key that others can read.
    await chmod(copy, 0o600);
  }
  return { ssl: 'on', ssl_key_file: key, ssl_cert_file: file };
}
