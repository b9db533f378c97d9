import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import { type Block, documents, readBlocks, repository } from './documents.ts';
import { closedPort } from './listen.ts';
import { freshMachine, petsInShell, serve } from './pets.ts';
import { SUPERUSER } from './postgres/databases.ts';
import { findPostgres } from './postgres/programs.ts';
import { startCluster } from './postgres.ts';
import { recordTerminal, screenLines } from './pseudo-terminal.ts';
import { isInstalled, testIf } from './skip.ts';

// Runs the blocks of the documents as a reader would.

/** The program that runs the blocks of each language. `console` blocks run in a pseudo-terminal instead. */
const interpreters: Record<string, readonly string[]> = {
  sh: ['sh', '-euv'],
  yaml: ['sh', '-eu'],
  crontab: ['sh', '-eu'],
  sql: ['psql', '--no-psqlrc', '--set=ON_ERROR_STOP=1', '--quiet', '--file'],
};

/** Whether a block has commands. A block in YAML has them if it is a step of a workflow. */
export const isRunnable = ({ language, text }: Block): boolean =>
  language === 'console' || (language in interpreters && (language !== 'yaml' || /\brun:/.test(text)));

export const needsPostgres = ({ language, text }: Block): boolean =>
  language === 'sql' || text.includes('postgres://');

/** Declares a test for each section. It runs the selected blocks of the section in order on one machine. */
export function testBlocks(isSelected: (block: Block) => boolean): void {
  const selected = documents
    .flatMap(readBlocks)
    .filter(
      (block) => isRunnable(block) && isSelected(block) && block.directive !== 'debian' && !block.skipReason,
    );
  for (const section of new Set(selected.map((block) => block.section))) {
    const blocks = selected.filter((block) => block.section === section);
    const missing = missingPrograms(blocks);
    testIf(missing.length === 0, `not installed: ${missing.join(', ')}`)(section, async () => {
      const machine = await readerMachine(blocks);
      for (const block of blocks)
        await (block.language === 'console' ? runConsole : runScript)(block, machine);
    });
  }
}

function missingPrograms(blocks: readonly Block[]): string[] {
  const text = blocks.map((block) => block.text).join('\n');
  const needed = ['jq', 'curl', 'pytest'].filter((word) => new RegExp(`\\b${word}\\b`).test(text));
  if (blocks.some(needsPostgres)) needed.push('psql');
  const missing = needed.filter((name) => !isInstalled(name));
  const needsTerminal = blocks.some(({ language }) => language === 'console');
  return [...missing, ...(needsTerminal && !isInstalled('script') ? ['script'] : [])];
}

/** The port, databases and URLs in the documents. Tests replace them with those of their own servers. */
const DEFAULT_PORT = '7387';
const EXAMPLE_DATABASE = /\bdb\.example:5432\b/g;
const EXAMPLE_URL = /https:\/\/(?:[\w.-]*example\.com|shop\.example)(\/v1)?/g;

type ReaderMachine = Awaited<ReturnType<typeof readerMachine>>;

/** Creates a machine for these blocks. If they read, but do not set, variables such as PETS_API_KEY, it has them. */
async function readerMachine(blocks: readonly Block[]) {
  const machine = await freshMachine();
  const isOwn = blocks.some(({ directive }) => directive === 'service');
  const { url, key, token } = isOwn
    ? await serve(machine, ['--no-profile'])
    : await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
  if (!isOwn) await machine.saveProfile('prod', { baseUrl: url, key });
  const port = String(await closedPort());
  const database = blocks.some(needsPostgres) ? await startDatabase() : undefined;
  if (blocks.some(({ directive }) => directive === 'store')) {
    const data = database ? ['--data', await database.createStore()] : [];
    const { code, stderr } = await machine.pets(['serve', ...data, '--seed', '--no-profile', '--', 'true']);
    expect(code, stderr).toBe(0);
    if (database) Object.assign(database.env, { PETS_DATA: database.url });
  }
  const text = blocks.map((block) => block.text).join('\n');
  const needsService =
    /\$\{?PETS_(API_KEY|BASE_URL|SERVE_TOKEN)/.test(text) && !/PETS_(API_KEY|BASE_URL)=/.test(text);
  const directory = join(machine.home, 'shop');
  const inPackage = blocks.some(({ directive }) => directive === 'package');
  await mkdir(directory);
  await (inPackage ? copyPackage(directory) : writeProject(directory, key));
  const bin = join(machine.home, 'bin');
  await writeProgram(bin, port);
  onTestFinished(() => {
    spawnSync('sh', ['-c', 'kill -KILL $(cat servers)'], { cwd: machine.home, stdio: 'ignore' });
  });
  const npmPrefix = join(machine.home, 'npm');
  return {
    directory,
    key,
    env: {
      ...machine.env,
      ...database?.env,
      PATH: [join(npmPrefix, 'bin'), bin, machine.env['PATH'], findPostgres()?.directory ?? ''].join(
        delimiter,
      ),
      // npm installs the package from its directory, without network access.
      npm_config_prefix: npmPrefix,
      npm_config_cache: join(machine.home, 'npm-cache'),
      npm_config_offline: 'true',
      npm_config_ignore_scripts: 'true',
      npm_config_update_notifier: 'false',
      ...(needsService && { PETS_API_KEY: key, PETS_BASE_URL: url, PETS_SERVE_TOKEN: token }),
    },
    /** Replaces the URLs, port and databases of the documents with those of this test. */
    localize: (command: string) =>
      command
        .replace(EXAMPLE_URL, (_, version) => (version ? url : new URL(url).origin))
        .replaceAll(DEFAULT_PORT, port)
        .replaceAll(EXAMPLE_DATABASE, (each) => database?.host ?? each),
    /** Replaces everything that differs between runs, in documents and in the output of commands. */
    normalize: (shown: string) =>
      shown
        .replaceAll('/home/ada', '~')
        .replaceAll(machine.home, '~')
        .replaceAll(url, 'SERVICE/v1')
        .replaceAll(new URL(url).host, 'HOST')
        .replace(EXAMPLE_URL, (_, version = '') => `SERVICE${version}`)
        .replace(/[\w.-]*\bexample\.com/g, 'HOST')
        .replaceAll(port, DEFAULT_PORT)
        .replace(/pets_[\w-]{43}/g, 'pets_KEY')
        .replace(/…[\w-]{4}(?![\w-])/g, '…LAST'),
  };
}

/** Starts PostgreSQL for the commands in documents. With `env`, psql connects to it as superuser by default. */
async function startDatabase() {
  const cluster = await startCluster();
  const url = cluster.url('pets', 'pets_server');
  return {
    url,
    host: `127.0.0.1:${cluster.port}`,
    env: { PGHOST: '127.0.0.1', PGPORT: `${cluster.port}`, PGUSER: SUPERUSER, PGDATABASE: 'postgres' },
    async createStore(): Promise<string> {
      await cluster.sql('postgres', 'create role pets_server login');
      await cluster.sql('postgres', 'create database pets owner pets_server');
      return url;
    },
  };
}

/**
 * Writes a script `pets` that runs the built command. Unless the arguments contain `--help` or `--`, the script starts
 * `pets serve` in the background, as in a second terminal, with this port by default, and prints its first output.
 */
async function writeProgram(bin: string, port: string): Promise<void> {
  const script = `#!/bin/sh
[ "$1" = serve ] || exec ${petsInShell} "$@"
case " $* " in
  *' -- '*|*' --help '*) exec ${petsInShell} "$@" ;;
esac
shift
output="$HOME/output-$$"
# setsid starts a new session, so that the server continues when this terminal is closed.
setsid ${petsInShell} serve --port ${port} "$@" > "$output" 2>&1 < /dev/null &
echo $! >> "$HOME/servers"
until [ -s "$output" ] || ! kill -0 $! 2> /dev/null; do sleep 0.02; done
cat "$output"
kill -0 $! 2> /dev/null || wait $!
`;
  await mkdir(bin);
  await writeFile(join(bin, 'pets'), script, { mode: 0o755 });
}

/** Writes the files that the documents assume: animals, ids, a key, a project with a test, examples, and libraries. */
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
    'package.json': JSON.stringify({ private: true, type: 'module', scripts: { test: 'node check.mjs' } }),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  await cp(join(repository, 'docs', 'examples'), directory, { recursive: true });
  await symlink(join(repository, 'node_modules'), join(directory, 'node_modules'));
}

/** Copies most files of the published package. */
async function copyPackage(directory: string): Promise<void> {
  for (const name of ['package.json', 'dist', 'docs', 'README.md', 'CHANGELOG.md', 'LICENSE'])
    await cp(join(repository, name), join(directory, name), { recursive: true });
}

/** Runs a block. @throws if it ends with an error */
async function runScript({ at, language, text }: Block, machine: ReaderMachine): Promise<void> {
  const script = join(machine.directory, '.block');
  await writeFile(script, machine.localize(commandsOf(language, text)));
  const { code, output } = await runProgram([...(interpreters[language] ?? []), script], machine);
  expect(code, `${at}: ${output}`).toBe(0);
}

/** The shell commands of a step of a workflow or of a crontab. Text in other languages stays unchanged. */
function commandsOf(language: string, text: string): string {
  if (language === 'yaml') return [...text.matchAll(/\brun: (.*)$/gm)].map(([, line]) => line).join('\n');
  return language === 'crontab' ? text.replace(/^(\S+\s+){5}/gm, '') : text;
}

/** Runs lines of sh in order on the same machine. Continues after a line that fails. */
export async function runLines(lines: readonly string[]): Promise<{ code: number; output: string }[]> {
  const machine = await readerMachine([]);
  const results = [];
  for (const line of lines) results.push(await runProgram(['sh', '-c', machine.localize(line)], machine));
  return results;
}

async function runProgram([program = '', ...args]: readonly string[], { directory, env }: ReaderMachine) {
  const child = spawn(program, args, { cwd: directory, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => {
      output += chunk;
    });
  }
  const closed = once(child, 'close');
  const [code] = await once(child, 'exit');
  // A server in the background may keep the streams open, so do not wait for `close` for long.
  await Promise.race([closed, setTimeout(200)]);
  return { code: code as number, output };
}

/** Runs the commands of a `console` block in a terminal. Each must succeed, and print the output below it, if any. */
async function runConsole({ at, text }: Block, machine: ReaderMachine): Promise<void> {
  // The commands follow `$ `, each with the output below it.
  const steps = text
    .split(/^\$ /m)
    .slice(1)
    .map((step) => step.trimEnd().split('\n'));
  const lines = steps.map(([command = '']) => `${machine.localize(command)}\necho "@@$?"\n`);
  await writeFile(join(machine.directory, '.session'), lines.join(''));
  const terminal = await recordTerminal('exec sh .session', {
    cwd: machine.directory,
    env: machine.env,
    columns: 120,
    rows: 50,
    typed: [{ after: /API key for/, text: `${machine.key}\r` }],
  });
  const parts = screenLines(terminal)
    .join('\n')
    .split(/@@(\d+)(?:\n|$)/);
  for (const [i, [command, ...output]] of steps.entries()) {
    const [shown = '', code] = parts.slice(2 * i, 2 * i + 2);
    expect(code, `${at}: $ ${command}\n${shown}`).toBe('0');
    if (output.length > 0)
      expect(collapse(machine.normalize(shown)), at).toMatch(pattern(machine.normalize(output.join('\n'))));
  }
}

/** Replaces the spaces between columns with two, because the widths of columns depend on the length of the URL. */
const collapse = (text: string): string => `${text.replace(/(\S) {2,}/g, '$1  ').trimEnd()}\n`;

/** In a document, `…` stands for any text within a line, and a line that is only `…` for any number of lines. */
const pattern = (output: string): RegExp =>
  new RegExp(
    `^${collapse(output)
      .trimEnd()
      .split('\n')
      .map((line) => (line === '…' ? '(?:.*\\n)*?' : `${line.split('…').map(escapeRegExp).join('.*')} *\\n`))
      .join('')}$`,
  );

const escapeRegExp = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
