import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { closedPort } from './listen.ts';
import { temporaryDirectory } from './temp.ts';

/** The options with which each proxy runs in the foreground with a configuration file. */
const PROGRAMS = {
  nginx: (file: string, directory: string) => ['-p', directory, '-c', file],
  haproxy: (file: string) => ['-db', '-f', file],
  tinyproxy: (file: string) => ['-d', '-c', file],
};

export type ProxyName = keyof typeof PROGRAMS;

/** Returns the configuration of a proxy that listens on this loopback port and keeps its files in this directory. */
export type Configure = (port: number, directory: string) => string;

/** How many ports to try. A proxy cannot choose a free port itself, so another process may take the port first. */
const MAX_PORTS = 5;

/** Starts a proxy, waits until it accepts connections, and returns its port. Ends the proxy after the test. */
export async function startProxy(name: ProxyName, configure: Configure): Promise<number> {
  let output = '';
  for (let i = 0; i < MAX_PORTS; i++) {
    const directory = await temporaryDirectory();
    // A proxy that root starts switches to another user, who must be able to write here.
    await chmod(directory, 0o777);
    const port = await closedPort();
    const file = join(directory, 'configuration');
    await writeFile(file, configure(port, directory));
    const child = spawn(name, PROGRAMS[name](file, directory), { cwd: directory });
    const ended = new Promise((resolve) => child.once('error', resolve).once('exit', resolve));
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        output += chunk;
      });
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    if (await accepts(port, child)) return port;
  }
  throw new Error(`${name} does not start: ${output}`);
}

/** Waits until the proxy accepts connections on the port. Returns false if the proxy ends instead. */
async function accepts(port: number, child: ChildProcess): Promise<boolean> {
  const isRunning = () => child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  while (isRunning()) {
    const socket = connect(port, '127.0.0.1');
    const isConnected = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    socket.destroy();
    // If another process has taken the port, the port accepts connections, but the proxy ends soon.
    await sleep(isConnected ? 50 : 10);
    if (isConnected && isRunning()) return true;
  }
  return false;
}

/** An nginx whose `server` block has these directives. `http` has directives before that block. */
export const nginxServer =
  (directives: (port: number) => string, http = ''): Configure =>
  (port, directory) =>
    `
daemon off;
master_process off;
pid ${directory}/pid;
error_log ${directory}/error.log;
events {}
http {
  access_log off;
  client_body_temp_path ${directory};
  proxy_temp_path ${directory};
  fastcgi_temp_path ${directory};
  uwsgi_temp_path ${directory};
  scgi_temp_path ${directory};
  ${http}
  server {
    ${directives(port)}
  }
}
`;
