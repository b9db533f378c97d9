import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringifyJson } from '../src/contract/json.ts';
import { animal } from './animals.ts';
import type { Lab } from './lab.ts';
import { runCommand } from './processes.ts';
import { freePort, peer, ready, type Server, serve, start } from './servers.ts';

const INSTALL_MILLISECONDS = 180_000;
const ANIMALS = 1_000;

const folder = join(import.meta.dirname, 'peers');
const cli = (...path: string[]): string => join(folder, 'node_modules', ...path);

/** A server of another project. `path` is the path of a list of 20 animals. */
export type Peer = { name: string; path: string; launch(prefix?: readonly string[]): Promise<Server> };

/** Installs missing peers, and returns those that start and respond. If the installation fails, returns none. */
export async function findPeers(lab: Lab, onNotice: (notice: string) => void): Promise<Peer[]> {
  try {
    await installPeers(lab, onNotice);
  } catch {
    onNotice(
      'fastify, hono, json-server and Prism could not be installed, so their rows are left out. ' +
        'To see the reason, run: npm install --prefix bench/peers',
    );
    return [];
  }
  const found: Peer[] = [];
  for (const peer of await describePeers(lab)) {
    try {
      await ready(() => peer.launch());
      found.push(peer);
    } catch (error) {
      onNotice(`${peer.name} does not start, so its row is left out: ${(error as Error).message}`);
    }
  }
  return found;
}

async function describePeers(lab: Lab): Promise<Peer[]> {
  const animals = lab.path('db.json');
  const pets = Array.from({ length: ANIMALS }, (_, i) => animal(i + 1));
  writeFileSync(animals, stringifyJson({ pets }));
  const description = lab.path('openapi.json');
  writeFileSync(description, await describeOurs(lab));

  const scriptPeer = (name: string): Peer => ({
    name,
    path: '/pets?limit=20',
    launch: (prefix) => start(lab, { prefix, args: [peer(`${name}.mjs`), animals] }),
  });
  const commandPeer = (name: string, path: string, args: (port: string) => string[]): Peer => ({
    name,
    path,
    async launch(prefix) {
      const port = await freePort();
      return start(lab, { prefix, args: args(String(port)), url: `http://127.0.0.1:${port}` });
    },
  });
  return [
    scriptPeer('fastify'),
    scriptPeer('hono'),
    commandPeer('json-server', '/pets?_limit=20', (port) => [
      cli('json-server', 'lib', 'cli', 'bin.js'),
      ...['--quiet', '--host', '127.0.0.1', '--port', port, animals],
    ]),
    commandPeer('Prism', '/pets?limit=20', (port) => [
      cli('@stoplight', 'prism-cli', 'dist', 'index.js'),
      ...['mock', '--verboseLevel', 'error', '--host', '127.0.0.1', '--port', port, description],
    ]),
  ];
}

/** Runs `npm install` once, unless all peers are installed in the required versions. */
async function installPeers(lab: Lab, onNotice: (notice: string) => void): Promise<void> {
  const { dependencies } = readJson(join(folder, 'package.json'));
  const isInstalled = ([name, version]: [string, unknown]) => {
    try {
      return readJson(cli(name, 'package.json')).version === version;
    } catch {
      return false;
    }
  };
  if (Object.entries(dependencies).every(isInstalled)) return;
  onNotice('installing the peers into bench/peers/node_modules');
  const options = [
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--no-package-lock',
    '--fetch-retries=0',
    '--silent',
  ];
  await runCommand(lab, ['npm', 'install', ...options, '--prefix', folder], {
    env: process.env,
    timeout: INSTALL_MILLISECONDS,
  });
}

/** The OpenAPI document of `pets serve`. */
async function describeOurs(lab: Lab): Promise<string> {
  const { url, stop } = await start(lab, { args: serve('--ephemeral') });
  const reply = await fetch(new URL('/openapi.json', url));
  const text = await reply.text();
  await stop();
  return text;
}

const readJson = (path: string) => JSON.parse(readFileSync(path, 'utf8'));
