import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { closedPort } from './listen.ts';
import { temporaryDirectory } from './temp.ts';

// Starts nginx, HAProxy, Squid and tinyproxy. The path of the password program of Squid is the one in Debian.

/** The options with which each proxy prints its version, and runs in the foreground with a configuration file. */
const PROGRAMS = {
  nginx: { version: '-v', run: (file: string, directory: string) => ['-p', directory, '-c', file] },
  haproxy: { version: '-v', run: (file: string) => ['-db', '-f', file] },
  squid: { version: '-v', run: (file: string) => ['-N', '-f', file] },
  tinyproxy: { version: '-v', run: (file: string) => ['-d', '-c', file] },
} satisfies Record<string, { version: string; run: (file: string, directory: string) => string[] }>;

export type ProxyName = keyof typeof PROGRAMS;

export const PROXY_NAMES = Object.keys(PROGRAMS) as ProxyName[];

/** Whether the proxy is installed. Tests skip proxies that are not installed. */
export const hasProxy = (name: ProxyName): boolean =>
  spawnSync(name, [PROGRAMS[name].version]).error === undefined;

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
    const child = spawn(name, PROGRAMS[name].run(file, directory), { cwd: directory });
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

/** A reverse proxy for the service at `upstream` (host:port). */
export const nginxInFront = (upstream: string): Configure =>
  nginxServer(
    (port) => `
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://${upstream};
      proxy_set_header Host $http_host;
    }`,
  );

/** A reverse proxy for the service at `upstream` (host:port). `backend` is added to the section of that name. */
export const haproxyInFront =
  (upstream: string, backend = ''): Configure =>
  (port) =>
    `
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend front
  bind 127.0.0.1:${port}
  default_backend back
backend back
  ${backend}
  server service ${upstream}
`;

/** The user and password for the forward proxies, which require them. */
export const PROXY_USER = 'ada';
export const PROXY_PASSWORD = 'hunter2';

export const squidWithPassword: Configure = (port, directory) => {
  const passwords = join(directory, 'passwords');
  const hash = createHash('md5').update(PROXY_PASSWORD).digest('hex');
  writeFileSync(passwords, `${PROXY_USER}:${hash}\n`);
  return `
http_port 127.0.0.1:${port}
pid_filename none
cache_log ${directory}/cache.log
access_log none
cache deny all
coredump_dir ${directory}
shutdown_lifetime 0 seconds
auth_param basic program /usr/lib/squid/basic_ncsa_auth ${passwords}
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
`;
};

export const tinyproxyWithPassword: Configure = (port) => `
Port ${port}
Listen 127.0.0.1
BasicAuth ${PROXY_USER} ${PROXY_PASSWORD}
`;
