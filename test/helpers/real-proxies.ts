import { chmodSync } from 'node:fs';
import { startListening } from './background-program.ts';

/** The options with which each proxy runs in the foreground with a configuration file. */
const PROGRAMS = {
  nginx: (file: string, directory: string) => ['-p', directory, '-c', file],
  haproxy: (file: string) => ['-db', '-f', file],
  tinyproxy: (file: string) => ['-d', '-c', file],
};

export type ProxyName = keyof typeof PROGRAMS;

/** Returns the configuration of a proxy that listens on this loopback port and keeps its files in this directory. */
export type Configure = (port: number, directory: string) => string;

/** Starts a proxy, waits until it accepts connections, and returns its port. Ends the proxy after the test. */
export function startProxy(name: ProxyName, configure: Configure): Promise<number> {
  const prepare: Configure = (port, directory) => {
    // A proxy that root starts switches to another user, who must be able to write here.
    chmodSync(directory, 0o777);
    return configure(port, directory);
  };
  // Unlike PostgreSQL, a proxy may run as root, and can then read every certificate.
  return startListening(name, prepare, PROGRAMS[name], {});
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
