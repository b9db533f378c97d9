import { spawnSync } from 'node:child_process';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { repository } from './documents.ts';
import { closedPort } from './listen.ts';
import { freshMachine, type Machine, petsInShell, serve } from './pets.ts';
import { SUPERUSER } from './postgres/databases.ts';
import { findPostgres } from './postgres/programs.ts';
import { startCluster } from './postgres.ts';

/** The port, databases and URLs in the documents. Tests replace them with those of a running service and database. */
const DEFAULT_PORT = '7387';
const EXAMPLE_DATABASE = /\b(?:db|replica)\.example:5432\b/g;
const EXAMPLE_URL = /https:\/\/[\w.-]*example\.(?:com|org|net)(\/v1)?/g;

/** A machine on which a reader follows a document: `pets` is in PATH, and a service with sample animals runs. */
export type ReaderMachine = {
  directory: string;
  env: Record<string, string>;
  key: string;
  /** Replaces the documents' URL and port with those of this test. */
  localize(command: string): string;
  /** Replaces everything that differs between runs. Works on documents and on the output of commands. */
  normalize(text: string): string;
};

/** Creates a machine for the commands in `text`. Sets PETS_API_KEY, PETS_SERVE_TOKEN and PETS_BASE_URL if `text` reads one and sets none. */
export async function readerMachine(directives: readonly string[], text: string): Promise<ReaderMachine> {
  const machine = await freshMachine();
  const { url, key, token } = await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
  const port = String(await closedPort());
  if (!directives.includes('new machine')) await machine.saveProfile('prod', { baseUrl: url, key });
  const bin = join(machine.home, 'bin');
  const npmPrefix = join(machine.home, 'npm');
  await writePrograms(bin);
  onTestFinished(() => {
    spawnSync('sh', ['-c', 'kill -KILL $(cat servers)'], { cwd: machine.home, stdio: 'ignore' });
  });
  const inPackage = directives.includes('package');
  const directory = join(machine.home, inPackage ? 'pets' : 'shop');
  await mkdir(directory);
  await (inPackage ? copyPackage(directory) : writeProject(directory, key));
  const database = directives.some((each) => each.startsWith('postgres'))
    ? await readerDatabase(machine, { hasStore: directives.includes('postgres store') })
    : undefined;
  const needsKeyVariable =
    /\$\{?PETS_(API_KEY|BASE_URL|SERVE_TOKEN)/.test(text) && !/PETS_(API_KEY|BASE_URL)=/.test(text);
  const home = new RegExp(`/home/ada|${machine.home}`, 'g');
  return {
    directory,
    key,
    env: {
      ...machine.env,
      ...database?.env,
      PATH: [join(npmPrefix, 'bin'), bin, machine.env['PATH'], database?.programs].join(delimiter),
      NODE: process.execPath,
      PETS_TEST_PORT: port,
      // npm installs the package from its directory, without network access.
      npm_config_prefix: npmPrefix,
      npm_config_cache: join(machine.home, 'npm-cache'),
      npm_config_offline: 'true',
      npm_config_ignore_scripts: 'true',
      npm_config_update_notifier: 'false',
      ...(needsKeyVariable && { PETS_API_KEY: key, PETS_BASE_URL: url, PETS_SERVE_TOKEN: token }),
    },
    localize: (command) =>
      command
        .replace(EXAMPLE_URL, (_, version) => (version ? url : new URL(url).origin))
        .replaceAll(DEFAULT_PORT, port)
        .replaceAll(EXAMPLE_DATABASE, (each) => database?.host ?? each),
    normalize: (shown) =>
      shown
        .replace(home, '~')
        .replaceAll(url, 'SERVICE/v1')
        .replaceAll(new URL(url).host, 'HOST')
        .replace(EXAMPLE_URL, (_, version = '') => `SERVICE${version}`)
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

/** Starts PostgreSQL for a reader. The programs of PostgreSQL then connect to it as superuser by default. */
async function readerDatabase(machine: Machine, { hasStore }: { hasStore: boolean }) {
  const cluster = await startCluster();
  const env = { PGHOST: '127.0.0.1', PGPORT: `${cluster.port}`, PGUSER: SUPERUSER, PGDATABASE: 'postgres' };
  const url = cluster.url('pets', 'pets_server');
  if (hasStore) {
    await cluster.sql('postgres', 'create role pets_server login');
    await cluster.sql('postgres', 'create database pets owner pets_server');
    const { code, stderr } = await machine.pets([
      'serve',
      '--data',
      url,
      '--seed',
      '--no-profile',
      '--',
      'true',
    ]);
    if (code !== 0) throw new Error(stderr);
  }
  return {
    host: `127.0.0.1:${cluster.port}`,
    programs: findPostgres()?.directory,
    env: { ...env, ...(hasStore && { PETS_DATA: url }) },
  };
}

/**
 * Writes two scripts to `bin`. `pets` runs the built command, and gives `pets serve` the port of the test by default.
 * `pets-serve` starts `pets serve` in the background, as in a second terminal, and prints its first output.
 */
async function writePrograms(bin: string): Promise<void> {
  await mkdir(bin);
  const pets = `#!/bin/sh
if [ "$1" = serve ]; then
  echo $$ >> "$HOME/servers"
  case " $* " in
    *' --port '*|*' -- '*|*' --help '*) ;;
    *) shift; set -- serve --port "$PETS_TEST_PORT" "$@" ;;
  esac
fi
exec ${petsInShell} "$@"
`;
  const petsServe = `#!/bin/sh
output="$HOME/output-$$"
# setsid starts a new session, so that the server continues when this terminal is closed.
$(command -v setsid) pets serve "$@" > "$output" 2>&1 < /dev/null &
until [ -s "$output" ] || ! kill -0 $! 2> /dev/null; do sleep 0.02; done
cat "$output"
kill -0 $! 2> /dev/null || wait $!
`;
  await writeFile(join(bin, 'pets'), pets, { mode: 0o755 });
  await writeFile(join(bin, 'pets-serve'), petsServe, { mode: 0o755 });
}

/** Writes the files that the documents assume: a file of animals, a key, and a project with tests. */
async function writeProject(directory: string, key: string): Promise<void> {
  const check = `const { PETS_BASE_URL: url, PETS_API_KEY: key } = process.env;
const { status } = await fetch(url + '/pets', { headers: { Authorization: 'Bearer ' + key } });
process.exitCode = status === 200 || status === 503 ? 0 : 1;
`;
  const files = {
    'animals.csv': 'name,category,status\nRex,1,available\nBella,2,pending\nFürst Pückler,2,\n',
    'animals.ndjson': '{"name":"Rex","categoryId":1}\n',
    'ids.txt': '1 2\n',
    'key.txt': `${key}\n`,
    'check.mjs': check,
    'package.json': JSON.stringify({ private: true, scripts: { test: 'node check.mjs' } }),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
}

/** Copies the files of the published package. */
async function copyPackage(directory: string): Promise<void> {
  for (const name of ['package.json', 'dist', 'docs', 'README.md', 'CHANGELOG.md', 'LICENSE']) {
    await cp(join(repository, name), join(directory, name), { recursive: true });
  }
}
