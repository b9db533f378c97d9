import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { commands } from '../../src/cli/commands/index.ts';
import { toCliError } from '../../src/cli/core/errors.ts';
import { cliErrorCodes, exitCodeMeanings } from '../../src/cli/core/exit-codes.ts';
import { callError } from '../../src/cli/errors/call-error.ts';
import type { Connection } from '../../src/cli/profiles/profile.ts';
import type { Option } from '../../src/cli/program/command.ts';
import { allOutputOptions, globalOptions, optionsOf } from '../../src/cli/program/declare.ts';
import { documentsBySubject, environmentVariables } from '../../src/cli/program/help.ts';
import { ApiFailure, RateLimitError } from '../../src/client/errors.ts';
import { type ErrorCode, errorCodes } from '../../src/contract/error-codes.ts';
import { plans } from '../../src/contract/plans.ts';
import { runInTerminal } from '../helpers/context.ts';
import { isRunnable, testBlocks } from '../helpers/document-machine.ts';
import {
  anchorsOf,
  documents,
  knownDirectives,
  linksOf,
  readBlocks,
  readCommandSpans,
  readDocument,
  repository,
  type TableRow,
  tableRows,
} from '../helpers/documents.ts';

// documents.slow.test.ts runs commands in the text, and blocks that need neither PostgreSQL nor a new Debian system.

describe('each console block of the README shows what the program prints', () => {
  testBlocks(({ document, language }) => document === 'README.md' && language === 'console');
});

const blocks = documents.flatMap(readBlocks);

/** The commands with their full names. Groups are left out, because they have no options. */
const allCommands = commands.flatMap((each) =>
  'commands' in each
    ? each.commands.map((command) => ({ name: `${each.name} ${command.name}`, command }))
    : [{ name: each.name, command: each }],
);

const spans = [...new Map(documents.flatMap(readCommandSpans).map((span) => [span.command, span])).values()];

test('the command and options of every command in the text exist', () => {
  const wrong = spans.filter(({ command }) => {
    const [line = ''] = command.split(' -- ');
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

test('few blocks are not run, every directive is known, and commands are only in blocks that are run', () => {
  expect(blocks.filter((block) => isRunnable(block) && block.skipReason).length).toBeLessThanOrEqual(5);
  const problems = blocks.filter(
    (block) =>
      (block.directive !== undefined && !knownDirectives.includes(block.directive)) ||
      (!isRunnable(block) && /^(\$ |pets |npm |npx )/m.test(block.text)),
  );
  expect(problems).toEqual([]);
});

test('every npm script and every file of the repository that a document names exists', () => {
  const problems = documents.flatMap(({ name, text }) => [
    ...[...text.matchAll(/\bnpm run ([\w:]+)/g)].filter(([, script = '']) => !(script in manifest.scripts)),
    ...[...text.matchAll(/`((?:src|test|bench|bin|docs|\.config|\.github|\.ci)\/[\w./-]*)`/g)]
      .filter(([, path = '']) => !existsSync(join(repository, path)))
      .map(([, path]) => `${name}: there is no ${path}`),
  ]);
  expect(problems).toEqual([]);
});

/** The broken links of a document. `files` returns the text of a file that a link may lead to. */
function brokenLinks(
  { name, text }: { name: string; text: string },
  files: (path: string) => string | undefined,
) {
  return linksOf(text).filter((link) => {
    // Tests do not use the network, so only the form of an external link is checked.
    if (/^[a-z]+:/.test(link)) return !link.startsWith('https://') || !URL.canParse(link);
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? text : files(join(dirname(name), path));
    return target === undefined || (anchor !== undefined && !anchorsOf(target).includes(anchor));
  });
}

test('every link in a document has a target, also in the package', () => {
  // npm always adds the first three.
  const packed = ['README.md', 'LICENSE', 'package.json', ...manifest.files];
  const fileOf = (path: string) =>
    packed.some((each) => path === each || path.startsWith(`${each}/`)) && existsSync(join(repository, path))
      ? readDocument(path).text
      : undefined;
  const names = [
    ...documents.map(({ name }) => name),
    'CHANGELOG.md',
    'bench/README.md',
    '.github/SECURITY.md',
  ];
  expect(names.flatMap((name) => brokenLinks(readDocument(name), fileOf))).toEqual([]);
});

test('the README and pets help lead to documents about a 429, tests, deployment and backup', async () => {
  const overview = (await runInTerminal(['help'], { columns: 80 })).stdout;
  expect(overview).toMatch(/pets help documents .*429.* tests.* deploy.* backup/);
  const topic = (await runInTerminal(['help', 'documents'], { columns: 80 })).stdout;
  for (const [subject, names] of Object.entries(documentsBySubject)) {
    expect(topic).toMatch(new RegExp(`${subject} +${names}\\n`));
    for (const name of names.split(', ')) expect(documents.map((each) => each.name)).toContain(name);
  }
  const rows = tableRows(readDocument('README.md'), 'Documentation').map(({ cells }) => cells);
  for (const word of ['429', 'tests', 'deploy', 'backup']) {
    const [, links = ''] = rows.find(([subject]) => subject?.includes(word)) ?? [];
    expect(links, word).toMatch(/\]\(docs\/.*\)/);
  }
});

const commandReference = readDocument('docs/commands.md');
const service = readDocument('docs/service.md');

const withoutBackticks = (cell = '') => cell.replaceAll('`', '');

const firstCells = (rows: readonly TableRow[]) => rows.map(({ cells }) => withoutBackticks(cells[0]));

const flagsOf = (options: readonly Option[]) => options.map(({ flags }) => flags);

/** Expects that the first two cells of the rows are the entries of `expected`, in any order. */
function expectTable(rows: readonly TableRow[], expected: Readonly<Record<string, unknown>>): void {
  const table = rows.map(({ cells }) => cells.map(withoutBackticks));
  expect(Object.fromEntries(table.map(([key, value]) => [key, value]))).toEqual(
    Object.fromEntries(Object.entries(expected).map(([key, value]) => [key, String(value)])),
  );
  expect(table).toHaveLength(Object.keys(expected).length);
}

test('the tables of exit codes and of environment variables are those of the program', () => {
  expectTable(
    tableRows(readDocument('docs/scripting.md'), 'Exit codes'),
    Object.fromEntries(exitCodeMeanings),
  );
  expectTable(
    tableRows(readDocument('docs/configuration.md'), 'Environment variables'),
    environmentVariables,
  );
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

test.each(allCommands)('docs/commands.md lists the options of $name', ({ name, command }) => {
  expect(firstCells(tableRows(commandReference, `pets ${name}`))).toEqual(flagsOf(command.options ?? []));
});

test('docs/commands.md lists the global options and those for all formats', () => {
  expect(firstCells(tableRows(commandReference, 'Global options'))).toEqual(flagsOf(globalOptions));
  expect(firstCells(tableRows(commandReference, 'Output options'))).toEqual(
    flagsOf(optionsOf({ prints: 'rows', outputOptions: allOutputOptions })),
  );
});

test('docs/commands.md and pets help serve have the same groups of options, in which at most 23 are to be read', async () => {
  const { stdout } = await runInTerminal(['help', 'serve']);
  const inHelp = [...stdout.matchAll(/^(\w+):\n(?= +-)|^ +(--[\w-]+)/gm)].map(
    ([, group, flag]) => group ?? flag,
  );
  const section = commandReference.text.split('\n## pets serve\n')[1]?.split('\n## ')[0] ?? '';
  const inTable = [...section.matchAll(/^\| (\w+) \| description|^\| `(--[\w-]+)/gm)].map(
    ([, group, flag]) => group ?? flag,
  );
  const groups = inTable.filter((each) => !each?.startsWith('--'));
  expect(groups).toEqual(['Store', 'Keys', 'Faults', 'Network', 'Output']);
  expect(inTable.length - groups.length).toBeLessThanOrEqual(23);
  expect(inHelp.slice(0, inTable.length)).toEqual(inTable);
});

/** The exit code of the program for an error response of the service. */
function exitCodeOf(code: ErrorCode): number {
  const status = errorCodes[code];
  const error = { code, reason: 'no' };
  const failure =
    status === 429
      ? new RateLimitError(0, { response: error })
      : new ApiFailure(status, error.reason ?? '', error);
  const connection: Connection = {
    profile: 'prod',
    baseUrl: 'https://api.example.com/v1',
    key: 'k',
    keySource: 'PETS_API_KEY',
  };
  return toCliError(callError(failure, { connection, now: 0, timeZone: 'UTC', platform: 'linux' })).exitCode;
}

test('docs/troubleshooting.md lists the error codes of the program, each with its exit code', () => {
  const rows = tableRows(readDocument('docs/troubleshooting.md'), 'Troubleshooting');
  const ofService = firstCells(rows).filter((code) => code in errorCodes) as ErrorCode[];
  expectTable(rows, {
    ...Object.fromEntries(ofService.map((code) => [code, exitCodeOf(code)])),
    ...cliErrorCodes,
  });
});

test('docs/service.md lists the error codes of the service, each with its status, and the plans', () => {
  const rows = tableRows(service, '7. Errors').map(({ at, cells: [status = '', code = ''] }) => ({
    at,
    cells: [code, status],
  }));
  expectTable(rows, errorCodes);
  const { enterprise, ...fixed } = plans;
  expect(
    tableRows(service, '8.2 Plans').map(({ cells }) => cells.map((cell) => cell.replaceAll(',', ''))),
  ).toEqual([
    ...Object.entries(fixed).map(([plan, { perMinute, perDay }]) => [plan, `${perMinute}`, `${perDay}`]),
    ['enterprise', 'agreed for each key', 'agreed for each key'],
  ]);
  expect(enterprise).toEqual({ perMinute: 1e9, perDay: 1e12 });
});

test('docs/service.md has each decision from D1 to D17 once, in the section that its index names', () => {
  const numbers = Array.from({ length: 17 }, (_, i) => `D${i + 1}`);
  const index = tableRows(service, 'The animal inventory service').map(({ cells }) => cells);
  expect(index.map(([decision]) => decision)).toEqual(numbers);
  const sections = service.text.split(/^#+ (?=\d)/m).slice(1);
  const places = sections.flatMap((section) =>
    [...section.matchAll(/\*\*(D\d+)\.\*\*/g)].map(([, decision]) => [
      decision,
      /^[\d.]*\d/.exec(section)?.[0],
    ]),
  );
  expect(places).toHaveLength(17);
  expect(Object.fromEntries(places)).toEqual(
    Object.fromEntries(index.map(([decision, , link]) => [decision, /\[([\d.]+)\]/.exec(link ?? '')?.[1]])),
  );
});

test.each(['README.md', 'CONTRIBUTING.md', 'docs/service.md'])(
  '%s says in the same words what the specification is',
  (name) => {
    const text = readDocument(name)
      .text.replace(/\[(.*?)\]\(.*?\)/g, '$1')
      .replace(/\s+/g, ' ');
    expect(text).toMatch(
      /(docs\/service\.md|This page) describes the specification\. (The decisions D1 to D17 there|The decisions D1 to D17) say what `pets serve` does where the specification leaves something open\./,
    );
  },
);
