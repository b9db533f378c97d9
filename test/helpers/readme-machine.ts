import { readFileSync } from 'node:fs';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { freshMachine, PETS, serve } from './pets.ts';

const ROOT = join(import.meta.dirname, '..', '..');

/** The port and the address that a README names; commands get those of this run. */
const DEFAULT_PORT = '7387';
const EXAMPLE = /https:\/\/[\w.-]*example\.(?:com|org|net)(\/v1)?/g;

/** A machine on which somebody follows the README: `pets` is on the PATH, and a service of sample animals runs. */
export type ReaderMachine = {
  directory: string;
  env: Record<string, string>;
  key: string;
  /** The command with the address and the port of this run. */
  own(command: string): string;
  /** A text without what differs from run to run; the README's own and what was shown are then the same. */
  plain(text: string): string;
};

export async function readerMachine(marks: readonly string[], text: string): Promise<ReaderMachine> {
  const machine = await freshMachine();
  const service = await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
  const { url, key } = service;
  const port = String(await freePort());
  if (!marks.includes('fresh')) await machine.saveProfile('prod', { baseUrl: url, key });
  const bin = join(machine.home, 'bin');
  const prefix = join(machine.home, 'npm');
  await writePrograms(bin);
  onTestFinished(() => endServers(machine.home));
  const directory = join(machine.home, marks.includes('package') ? 'pets' : 'shop');
  await mkdir(directory);
  await (marks.includes('package') ? writePackage(directory) : writeProject(directory, key));
  const usesPair = /\$\{?PETS_(API_KEY|BASE_URL)/.test(text) && !/PETS_(API_KEY|BASE_URL)=/.test(text);
  const home = new RegExp(`/home/ada|${machine.home}`, 'g');
  return {
    directory,
    key,
    env: {
      ...machine.env,
      PATH: [join(prefix, 'bin'), bin, machine.env['PATH']].join(delimiter),
      NODE: process.execPath,
      PETS,
      PETS_README_PORT: port,
      // What is installed comes from the package's directory, and goes nowhere but to this machine.
      npm_config_prefix: prefix,
      npm_config_cache: join(machine.home, 'npm-cache'),
      npm_config_offline: 'true',
      npm_config_ignore_scripts: 'true',
      npm_config_update_notifier: 'false',
      ...(usesPair && { PETS_API_KEY: key, PETS_BASE_URL: url }),
    },
    own: (command) =>
      command
        .replace(EXAMPLE, (_, version) => (version ? url : new URL(url).origin))
        .replaceAll(DEFAULT_PORT, port),
    plain: (shown) =>
      shown
        .replace(home, '~')
        .replaceAll(url, 'SERVICE/v1')
        .replaceAll(new URL(url).host, 'HOST')
        .replace(EXAMPLE, (_, version = '') => `SERVICE${version}`)
        .replace(/[\w.-]*\bexample\.(com|org|net)/g, 'HOST')
        .replaceAll(port, DEFAULT_PORT)
        .replace(/pets_[\w-]{43}/g, 'pets_KEY')
        .replace(/…[\w-]{4}(?![\w-])/g, '…LAST')
        .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, 'INSTANT')
        .replace(/\b\d\d:\d\d:\d\d\b/g, 'TIME')
        .replace(/\bin \d+ days\b/g, 'in N days')
        .replace(/("pid": ?|\bprocess )\d+/g, '$1PID')
        .replace(/("store": ?")[\w-]+/g, '$1STORE'),
  };
}

/**
 * `pets` is the built command. `pets-serve` is one that runs on, as in a terminal of its own: it shows what the service
 * says at its start.
 */
async function writePrograms(bin: string): Promise<void> {
  await mkdir(bin);
  const pets = `#!/bin/sh
if [ "$1" = serve ]; then
  echo $$ >> "$HOME/servers"
  case " $* " in
    *' --port '*|*' -- '*|*' --help '*) ;;
    *) shift; set -- serve --port "$PETS_README_PORT" "$@" ;;
  esac
fi
exec "$NODE" "$PETS" "$@"
`;
  const petsServe = `#!/bin/sh
said="$HOME/said-$$"
# The end of a terminal ends what runs in it: this one belongs to none.
$(command -v setsid) pets serve "$@" > "$said" 2>&1 < /dev/null &
until [ -s "$said" ] || ! kill -0 $! 2> /dev/null; do sleep 0.02; done
cat "$said"
kill -0 $! 2> /dev/null || wait $!
`;
  await writeFile(join(bin, 'pets'), pets, { mode: 0o755 });
  await writeFile(join(bin, 'pets-serve'), petsServe, { mode: 0o755 });
}

function endServers(home: string): void {
  let pids: string[] = [];
  try {
    pids = readFileSync(join(home, 'servers'), 'utf8').trim().split('\n');
  } catch {
    return;
  }
  for (const pid of pids) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
}

/** What a reader has at hand: a file of animals, a key, a project with tests. */
async function writeProject(directory: string, key: string): Promise<void> {
  const check = `const { PETS_BASE_URL: url, PETS_API_KEY: key } = process.env;
const { status } = await fetch(url + '/pets', { headers: { Authorization: 'Bearer ' + key } });
process.exitCode = status === 200 || status === 503 ? 0 : 1;
`;
  const files = {
    'animals.csv': 'name,category,status\nRex,1,available\nBella,2,pending\nFürst Pückler,2,\n',
    'key.txt': `${key}\n`,
    'check.mjs': check,
    'package.json': JSON.stringify({ private: true, scripts: { test: 'node check.mjs' } }),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
}

/** The package as it is published. */
async function writePackage(directory: string): Promise<void> {
  for (const name of ['package.json', 'dist', 'README.md', 'CHANGELOG.md', 'LICENSE']) {
    await cp(join(ROOT, name), join(directory, name), { recursive: true });
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address ? address.port : 0;
}
