import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { environmentVariables } from '../../src/cli/commands/help.ts';
import { cliErrorCodes, exitCodeMeanings } from '../../src/cli/core/exit-codes.ts';
import { commands } from '../../src/cli/main.ts';
import { globalOptions, optionsOf } from '../../src/cli/program/program.ts';
import { errorCodes, plans } from '../../src/contract/api.ts';
import { isRunnable } from '../helpers/document-blocks.ts';
import {
  anchorsOf,
  type Document,
  documents,
  knownDirectives,
  linksOf,
  readBlocks,
  readCommandSpans,
  readDocument,
  repository,
  tableRows,
} from '../helpers/documents.ts';
import { freshMachine, serve } from '../helpers/pets.ts';

// documents.slow.test.ts runs the blocks that need neither PostgreSQL nor a new Debian system.

const blocks = documents.flatMap(readBlocks);

/** Replaces what differs between runs. */
const normalize = (shown: string): string =>
  shown.replace(/pets_[\w-]{43}/g, 'pets_KEY').replace(/…[\w-]{4}(?![\w-])/g, '…LAST');

test('the console blocks of the README show what the program prints', async () => {
  const machine = await freshMachine();
  const shop = await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
  const text = blocks.filter(({ document, language }) => document === 'README.md' && language === 'console');
  const steps = text.flatMap((block) => block.text.split(/^\$ pets /m).slice(1));
  expect(steps.length).toBeGreaterThan(3);
  for (const step of steps) {
    const [command = '', ...documented] = step.trimEnd().split('\n');
    const words =
      command.replace('https://api.example.com/v1', shop.url).match(/(?<=")[^"]+(?=")|[^\s"]+/g) ?? [];
    const isServer = words[0] === 'serve';
    const args = isServer ? [...words, '--port', '0'] : words;
    const program = machine.startProgram(args, { columns: 120, typed: [shop.key], env: { NO_COLOR: '1' } });
    if (isServer) await expect.poll(program.stdout).toContain('try:');
    else expect(await program.ended).toBe(0);
    const printed = normalize(program.stderr() + program.stdout())
      .replaceAll(machine.home, '/home/ada')
      .replaceAll(shop.url, 'https://api.example.com/v1')
      .replaceAll(new URL(shop.url).host, 'api.example.com')
      .replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:7387');
    const lines = (shown: string) =>
      shown
        .split(/\r?\n/)
        .flatMap((line) => line.trimEnd() || [])
        .sort();
    expect(lines(printed), command).toEqual(lines(normalize(documented.join('\n'))));
  }
});

/** The commands with their full names. Groups are left out, because they have no options. */
const allCommands = commands.flatMap((each) =>
  'commands' in each
    ? each.commands.map((command) => ({ name: `${each.name} ${command.name}`, command }))
    : [{ name: each.name, command: each }],
);

/** The command lines of servers in the examples of deployments. */
const exampleLines = ['pets.service', 'compose.yaml', 'compose-tests.yaml'].flatMap((name) =>
  readDocument(`docs/examples/${name}`)
    .text.split('\n')
    .filter((line) => /pets serve|PETS_OPTIONS=/.test(line))
    .map((line) => `pets serve ${line.match(/--[a-z-]+/g)?.join(' ')}`),
);

test('the command and options of every command in the text, the help and the examples exist', () => {
  expect(exampleLines.join(' ')).toMatch(/ --\w.* --\w.* --\w/);
  const spans = documents.flatMap(readCommandSpans).map((command) => command.split(' -- ')[0] ?? '');
  const help = allCommands.flatMap(({ command }) => command.examples ?? []);
  const helpLines = help.map((line) => line.replace(/^.*?(?=pets )/, '').replace(/ -- .*| {2,}.*/, ''));
  const wrong = [...spans, ...helpLines, ...exampleLines].filter((line) => {
    const isGroup = commands.some((each) => 'commands' in each && line === `pets ${each.name}`);
    const found = allCommands.filter(({ name }) => `${line} `.startsWith(`pets ${name} `));
    const known = [...globalOptions, ...found.flatMap(({ command }) => optionsOf(command))];
    const flags = known.flatMap((option) => option.flags.split(/[ ,]+/));
    return (
      (found.length === 0 && !isGroup && !/^pets (help|--)/.test(line)) ||
      (line.match(/(?<![\w-])--[a-z][a-z-]*/g) ?? []).some((option) => !flags.includes(option))
    );
  });
  expect(wrong).toEqual([]);
});

test('at most five blocks with commands are not run, and every directive is known', () => {
  expect(blocks.filter((block) => isRunnable(block) && block.skipReason).length).toBeLessThanOrEqual(5);
  const problems = blocks.filter(
    (block) =>
      (block.directive !== undefined && !knownDirectives.includes(block.directive)) ||
      (!isRunnable(block) && /^(\$ |pets |npm |npx |run: )/m.test(block.text)),
  );
  expect(problems).toEqual([]);
});

test('every npm script and file that a document names exists', () => {
  const text = documents.map((document) => document.text).join('\n');
  const scripts = [...text.matchAll(/\bnpm run ([\w:]+)/g)].map(([, script = '']) => script);
  expect(scripts.filter((script) => !(script in manifest.scripts))).toEqual([]);
  const names = /`((?:src|test|bench|bin|docs|\.config|\.github|\.ci)\/[\w./-]*)`/g;
  const paths = [...text.matchAll(names)].map(([, path = '']) => path);
  expect(paths.filter((path) => !existsSync(join(repository, path)))).toEqual([]);
});

test('every link in a document has a target, also in the package', () => {
  // npm always adds the first three.
  const packed = ['README.md', 'LICENSE', 'package.json', ...manifest.files];
  const isPacked = (path: string) => packed.some((each) => path === each || path.startsWith(`${each}/`));
  const isBroken = ({ name, text }: Document, link: string) => {
    // Tests do not use the network, so only the form of an external link is checked.
    if (/^[a-z]+:/.test(link)) return !link.startsWith('https://') || !URL.canParse(link);
    const [path = '', anchor] = link.split('#');
    const target = join(dirname(name), path);
    if (path !== '' && !(isPacked(target) && existsSync(join(repository, target)))) return true;
    return anchor !== undefined && !anchorsOf(path ? readDocument(target).text : text).includes(anchor);
  };
  const others = ['CHANGELOG.md', 'bench/README.md', '.github/SECURITY.md'].map(readDocument);
  const broken = [...documents, ...others].flatMap((document) =>
    linksOf(document.text).filter((link) => isBroken(document, link)),
  );
  expect(broken).toEqual([]);
});

const service = readDocument('docs/service.md');

const withoutBackticks = (cell = '') => cell.replaceAll('`', '');

test('the table of exit codes is that of the program, and has every error code', () => {
  const rows = tableRows(readDocument('docs/scripting.md'), 'Exit codes').map((cells) =>
    cells.map(withoutBackticks),
  );
  expect(rows.map(([exitCode, meaning]) => [Number(exitCode), meaning])).toEqual(exitCodeMeanings);
  const codes = rows.flatMap(([exitCode, , names = '']) =>
    names.split(', ').flatMap((name) => (name === '' ? [] : [[name, Number(exitCode)] as const])),
  );
  expect(Object.fromEntries(codes)).toEqual(cliErrorCodes);
  expect(codes).toHaveLength(Object.keys(cliErrorCodes).length);
});

test('the program describes every environment variable that it reads', () => {
  const source = readdirSync(join(repository, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(repository, 'src', name), 'utf8'))
    .join('\n');
  const read = [...source.matchAll(/\benv(?:\?\.)?\['((?:PETS|XDG|NO|FORCE)_\w+)'\]/g)].map(
    ([, name]) => name,
  );
  expect(read.length).toBeGreaterThan(8);
  const described = Object.keys(environmentVariables).flatMap((names) => names.split(', '));
  expect(described).toEqual(expect.arrayContaining([...new Set(read)]));
});

test('docs/service.md lists the error codes of the service, each with its status, and the plans', () => {
  const codes = tableRows(service, '7. Errors').map(([status, code]) => [
    withoutBackticks(code),
    Number(status),
  ]);
  expect(Object.fromEntries(codes)).toEqual(errorCodes);
  expect(codes).toHaveLength(Object.keys(errorCodes).length);
  const { enterprise, ...fixed } = plans;
  expect(
    tableRows(service, '8.2 Plans').map((cells) => cells.map((cell) => cell.replaceAll(',', ''))),
  ).toEqual([
    ...Object.entries(fixed).map(([plan, { perMinute, perDay }]) => [plan, `${perMinute}`, `${perDay}`]),
    ['enterprise', 'agreed for each key', 'agreed for each key'],
  ]);
  expect(enterprise).toEqual({ perMinute: 1e9, perDay: 1e12 });
});

test('docs/architecture.md names only files that exist, and every promise has a test', () => {
  const architecture = readDocument('docs/architecture.md');
  const files = ['src', 'bin', 'test'].flatMap((folder) =>
    readdirSync(join(repository, folder), { recursive: true, encoding: 'utf8' }).map(
      (name) => `/${folder}/${name}`,
    ),
  );
  const exists = (path: string) => files.some((file) => file.endsWith(`/${path}`));
  const paths = [...architecture.text.matchAll(/(?<![\w./-])[\w-]+(?:\/[\w.-]+)*\.(?:ts|sql)\b/g)].map(
    ([path]) => path,
  );
  expect(paths.length).toBeGreaterThan(20);
  expect(paths.filter((path) => !exists(path))).toEqual([]);
  const promises = tableRows(architecture, 'Promise → test');
  expect(promises.length).toBeGreaterThan(20);
  for (const [promise, tests = ''] of promises) {
    const names = [...tests.matchAll(/`([^`]+)`/g)].map(([, name]) => name);
    expect(names.length, promise).toBeGreaterThan(0);
    expect(
      names.filter((name) => !exists(`${name}.test.ts`)),
      promise,
    ).toEqual([]);
  }
});

test('the documents in docs have at most 65 KB together', () => {
  const sizes = documents
    .filter(({ name }) => name.startsWith('docs/'))
    .map(({ text }) => Buffer.byteLength(text));
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(65 * 1024);
});
