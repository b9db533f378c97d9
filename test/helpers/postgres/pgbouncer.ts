import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { databasesAt, USER } from './databases.ts';
import { freeServerPort, guardedDirectory, startProgram, waitUntilReady } from './guarded-directory.ts';

/** Starts a pgbouncer in transaction mode. The caller removes it. */
export async function createPgbouncer(
  upstream: { port: number },
  settings: Record<string, string | number> = {},
) {
  const { path: directory, remove } = await guardedDirectory();
  const port = await freeServerPort();
  const all = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: join(directory, 'users'),
    pool_mode: 'transaction',
    default_pool_size: 20,
    max_client_conn: 200,
    ...settings,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}\n`);
  const configuration = `[databases]\n* = host=127.0.0.1 port=${upstream.port}\n[pgbouncer]\n${lines.join('')}`;
  await writeFile(join(directory, 'users'), `"${USER}" ""\n`);
  await writeFile(join(directory, 'configuration'), configuration);
  const child = startProgram(directory, 'pgbouncer', [join(directory, 'configuration')]);
  await waitUntilReady(child, directory, () => accepts(port));
  return {
    port,
    url: databasesAt(port).url,
    async remove() {
      const ended = once(child, 'exit');
      if (child.kill('SIGKILL')) await ended;
      await remove();
    },
  };
}

function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
