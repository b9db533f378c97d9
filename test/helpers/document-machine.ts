import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { type Block, documents, readBlocks, repository } from './documents.ts';
import { closedPort } from './listen.ts';
import { freshMachine, type Machine, petsInShell, serve } from './pets.ts';
import { SUPERUSER } from './postgres/databases.ts';
import { findPostgres } from './postgres/programs.ts';
import { startCluster } from './postgres.ts';
import { hasTerminal, recordTerminal, screenLines } from './pseudo-terminal.ts';

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

/** Declares a test for each selected block, together with the blocks that continue it. */
export function testBlocks(isSelected: (first: Block) => boolean): void {
  for (const document of documents) {
    const sessions: [Block, ...Block[]][] = [];
    for (const block of readBlocks(document).filter(isRunnable)) {
      if (block.directives.includes('continue')) sessions.at(-1)?.push(block);
      else if (!block.directives.includes('debian')) sessions.push([block]);
    }
    for (const session of sessions.filter(([first]) => isSelected(first))) testSession(session);
  }
}

function testSession(session: readonly [Block, ...Block[]]): void {
  const [{ at, text, skipReason, directives }] = session;
  const missing = missingPrograms(session);
  const reason = skipReason ?? (missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined);
  const name = `${at} ${text.trim().split('\n')[0]}${reason ? ` (${reason})` : ''}`;
  test.skipIf(reason !== undefined)(name, async () => {
    const machine = await readerMachine(directives, session.map((block) => block.text).join('\n'));
    for (const block of session) {
      await (block.language === 'console' ? runConsole : runScript)(block, machine);
    }
  });
}

function missingPrograms(session: readonly Block[]): string[] {
  const text = session.map((block) => block.text).join('\n');
  const needed = [
    ...session.flatMap(({ language }) => interpreters[language]?.[0] ?? []),
    ...['jq', 'curl', 'pytest'].filter((word) => new RegExp(`\\b${word}\\b`).test(text)),
  ];
  const missing = needed.filter((name) => spawnSync('sh', ['-c', `command -v '${name}'`]).status !== 0);
  const needsTerminal = session.some(({ language }) => language === 'console') && !hasTerminal();
  return [...new Set(missing), ...(needsTerminal ? ['script (util-linux)'] : [])];
}

/** The port, databases and URLs in the documents. Tests replace them with those of a running service and database. */
const DEFAULT_PORT = '7387';
const EXAMPLE_DATABASE = /\b(?:db|replica)\.example:5432\b/g;
const EXAMPLE_URL = /https:\/\/(?:[\w.-]*example\.com|shop\.example)(\/v1)?/g;

/** A machine on which a reader follows a document. */
type ReaderMachine = {
  directory: string;
  env: Record<string, string>;
  key: string;
  /** Replaces the documents' URL and port with those of this test. */
  localize(command: string): string;
  /** Replaces everything that differs between runs, in documents and in the output of commands. */
  normalize(text: string): string;
};

/** Creates a machine for the commands in `text`. It has the variables of a service if `text` reads them and sets none. */
async function readerMachine(directives: readonly string[], text: string): Promise<ReaderMachine> {
  const machine = await freshMachine();
  const { url, key, token } = await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
  const port = String(await closedPort());
  if (!directives.includes('new')) await machine.saveProfile('prod', { baseUrl: url, key });
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
  const database = directives.includes('postgres') ? await startDatabase(machine) : undefined;
  if (directives.includes('store')) {
    const data = database ? ['--data', await database.createDatabase()] : [];
    await succeed(machine, ['serve', ...data, '--seed', '--no-profile', '--', 'true']);
  }
  const needsService =
    /\$\{?PETS_(API_KEY|BASE_URL|SERVE_TOKEN)/.test(text) && !/PETS_(API_KEY|BASE_URL)=/.test(text);
  return {
    directory,
    key,
    env: {
      ...machine.env,
      ...database?.env,
      ...(database && directives.includes('store') && { PETS_DATA: database.url }),
      PATH: [join(npmPrefix, 'bin'), bin, machine.env['PATH'], database?.programs].join(delimiter),
      NODE: process.execPath,
      PETS_TEST_PORT: port,
      // npm installs the package from its directory, without network access.
      npm_config_prefix: npmPrefix,
      npm_config_cache: join(machine.home, 'npm-cache'),
      npm_config_offline: 'true',
      npm_config_ignore_scripts: 'true',
      npm_config_update_notifier: 'false',
      ...(needsService && { PETS_API_KEY: key, PETS_BASE_URL: url, PETS_SERVE_TOKEN: token }),
    },
    localize: (command) =>
      command
        .replace(EXAMPLE_URL, (_, version) => (version ? url : new URL(url).origin))
        .replaceAll(DEFAULT_PORT, port)
        .replaceAll(EXAMPLE_DATABASE, (each) => database?.host ?? each),
    normalize: (shown) =>
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

async function succeed(machine: Machine, args: readonly string[]): Promise<void> {
  const { code, stderr } = await machine.pets(args);
  if (code !== 0) throw new Error(stderr);
}

/** Starts PostgreSQL for a reader. Its programs then connect as superuser by default. */
async function startDatabase(machine: Machine) {
  const cluster = await startCluster();
  const url = cluster.url('pets', 'pets_server');
  return {
    url,
    host: `127.0.0.1:${cluster.port}`,
    programs: findPostgres()?.directory,
    env: { PGHOST: '127.0.0.1', PGPORT: `${cluster.port}`, PGUSER: SUPERUSER, PGDATABASE: 'postgres' },
    async createDatabase(): Promise<string> {
      await cluster.sql('postgres', 'create role pets_server login');
      await cluster.sql('postgres', 'create database pets owner pets_server');
      await succeed(machine, ['store', 'migrate', url]);
      return url;
    },
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

/** Writes the files that the documents assume: animals, a key, the examples, and a project with tests and libraries. */
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

/** Copies the files of the published package. */
async function copyPackage(directory: string): Promise<void> {
  for (const name of ['package.json', 'dist', 'docs', 'README.md', 'CHANGELOG.md', 'LICENSE']) {
    await cp(join(repository, name), join(directory, name), { recursive: true });
  }
}

/** Runs a block. @throws if it ends with an error */
async function runScript({ at, language, text }: Block, machine: ReaderMachine): Promise<void> {
  const script = join(machine.directory, '.block');
  await writeFile(script, machine.localize(withServers(commandsOf(language, text))));
  const { end, output } = await runProgram([...(interpreters[language] ?? []), script], machine);
  expect(end, `${at}: ${output}`).toBe(0);
}

/** Runs lines of sh in order on the same machine. Continues after a line that fails. */
export async function runLines(lines: readonly string[]): Promise<{ code: number; output: string }[]> {
  const machine = await readerMachine([], lines.join('\n'));
  const script = lines.map((line) => `(\n${withServers(line)}\n) 2>&1; echo "@@$?"\n`).join('');
  const { output } = await runProgram(['sh', '-c', machine.localize(script)], machine);
  const parts = output.split(/@@(\d+)\n/);
  return lines.map((_, i) => ({ output: parts[2 * i] ?? '', code: Number(parts[2 * i + 1]) }));
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
  const [code, signal] = await once(child, 'exit');
  // A server in the background may keep the streams open, so do not wait for `close` for long.
  await Promise.race([closed, setTimeout(200)]);
  return { end: code ?? signal, output };
}

/** The shell commands of a step of a workflow or of a crontab. Text in other languages stays unchanged. */
function commandsOf(language: string, text: string): string {
  if (language === 'yaml') return [...text.matchAll(/\brun: (.*)$/gm)].map(([, line]) => line).join('\n');
  return language === 'crontab' ? text.replace(/^(\S+\s+){5}/gm, '') : text;
}

/** Replaces `pets serve` with `pets-serve`, which runs in the background, so that later commands can use the service. */
const withServers = (script: string): string =>
  script.replace(/^(\s*)pets serve\b(.*)$/gm, (line, indent, rest) =>
    / -- |--help|\\$/.test(rest) ? line : `${indent}pets-serve${rest.replace(/\s+#.*$/, '')}`,
  );

/** The commands of a `console` block after `$ `, each with the output below it. */
const stepsOf = (text: string): { command: string; output: string }[] =>
  text
    .split(/^\$ /m)
    .slice(1)
    .map((step) => {
      const [command = '', ...output] = step.trimEnd().split('\n');
      return { command, output: output.join('\n') };
    });

/** Runs the commands of a `console` block in a terminal, and compares what they print with the document. */
async function runConsole({ at, text }: Block, machine: ReaderMachine): Promise<void> {
  const steps = stepsOf(text);
  const lines = steps.map(({ command }) => `${machine.localize(withServers(command))}\necho "@@$?"\n`);
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
  for (const [i, { command, output }] of steps.entries()) {
    const [shown = '', code] = parts.slice(2 * i, 2 * i + 2);
    expect(code, `${at}: $ ${command}\n${shown}`).toBe('0');
    if (output !== '')
      expect(collapse(machine.normalize(shown)), at).toMatch(pattern(machine.normalize(output)));
  }
}

/** Widths of columns are ignored, because they depend on the length of the URL. */
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
