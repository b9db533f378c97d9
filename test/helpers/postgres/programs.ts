import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

/** A directory with the programs of PostgreSQL, and their version, such as 15.18. */
type Installation = { directory: string; version: string };

const OLDEST_VERSION = 15;

const PROGRAMS = ['postgres', 'initdb', 'pg_basebackup'];

/** Finds the newest PostgreSQL server of version 15 or later; undefined if there is none. */
export function findPostgres(): Installation | undefined {
  const directories = possibleDirectories().filter((directory) =>
    PROGRAMS.every((name) => existsSync(join(directory, name))),
  );
  return directories
    .flatMap((directory) => {
      const { stdout } = spawnSync(join(directory, 'postgres'), ['--version'], { encoding: 'utf8' });
      const version = /\(PostgreSQL\) (\d+\S*)/.exec(stdout ?? '')?.[1];
      return version ? [{ directory, version }] : [];
    })
    .filter(({ version }) => Number.parseInt(version, 10) >= OLDEST_VERSION)
    .sort((a, b) => Number.parseInt(b.version, 10) - Number.parseInt(a.version, 10))[0];
}

export const hasPgbouncer = (): boolean =>
  spawnSync('pgbouncer', ['--version'], { env: environment() }).status === 0;

function possibleDirectories(): string[] {
  const { stdout } = spawnSync('pg_config', ['--bindir'], { encoding: 'utf8' });
  const debian = '/usr/lib/postgresql';
  return [
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...(stdout ? [stdout.trim()] : []),
    ...(existsSync(debian) ? readdirSync(debian).map((version) => join(debian, version, 'bin')) : []),
  ].filter((directory) => directory !== '');
}

/** The user and group for a spawned program. Empty if the programs of PostgreSQL can run as the current user. */
export type Identity = { uid?: number; gid?: number };

/** PostgreSQL and pgbouncer refuse to run as root. If this process is root, they run as `postgres` or as `nobody`. */
export function unprivilegedIdentity(): Identity {
  if (process.getuid?.() !== 0) return {};
  for (const user of ['postgres', 'nobody']) {
    const [uid, gid] = ['-u', '-g'].map((option) => spawnSync('id', [option, user], { encoding: 'utf8' }));
    if (uid?.status === 0 && gid?.status === 0) return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  }
  throw new Error('PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`');
}

/** The environment in the C locale, without variables that change what programs of PostgreSQL do, such as PGPORT. */
export function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('PG'));
  // Debian installs pgbouncer in a directory that is not in the PATH of every user.
  return { ...Object.fromEntries(kept), LC_ALL: 'C', PATH: `${process.env['PATH']}${delimiter}/usr/sbin` };
}

/** Runs a program until it ends. @throws with its output if it fails */
export async function runToEnd(program: string, args: readonly string[], directory: string): Promise<void> {
  await promisify(execFile)(program, args, { cwd: directory, env: environment(), ...unprivilegedIdentity() });
}
