import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commands } from '../../src/cli/commands/index.ts';
import { cliErrorCodes, exitCodeMeanings } from '../../src/cli/core/exit-codes.ts';
import { CallError } from '../../src/cli/errors/call-error.ts';
import { describeError } from '../../src/cli/errors/describe-error.ts';
import type { Connection } from '../../src/cli/profiles/profile.ts';
import type { Command, Option } from '../../src/cli/program/command.ts';
import { globalOptions } from '../../src/cli/program/declare.ts';
import { environmentVariables } from '../../src/cli/program/help.ts';
import { allOutputOptions, optionsOf } from '../../src/cli/program/output-options.ts';
import { ApiFailure, RateLimitError } from '../../src/client/errors.ts';
import { type ErrorCode, errorCodes } from '../../src/contract/error-codes.ts';
import { plans } from '../../src/contract/plans.ts';
import { runInTerminal } from '../helpers/context.ts';
import { readDocument, repository, type TableRow, tableRows } from '../helpers/documents.ts';

const readme = readDocument('README.md');
const commandReference = readDocument('docs/commands.md');
const service = readDocument('docs/service.md');

const withoutBackticks = (cell = '') => cell.replaceAll('`', '');

/** Compares the first two cells of each row with a table of the program; returns the differences. */
function differences(rows: readonly TableRow[], expected: Readonly<Record<string, string>>): string[] {
  const table = new Map(Object.entries(expected));
  const problems = rows.flatMap(({ at, cells }) => {
    const [key, value] = cells.map(withoutBackticks) as [string, string];
    const wanted = table.get(key);
    table.delete(key);
    if (wanted === undefined) return [`${at}: the program has no ${key}`];
    return value === wanted ? [] : [`${at}: ${key} is "${wanted}", not "${value}"`];
  });
  return [...problems, ...[...table.keys()].map((key) => `${rows[0]?.at}: ${key} is missing in this table`)];
}

test('the table of exit codes is that of the program', () => {
  const rows = tableRows(readDocument('docs/scripting.md'), 'Exit codes');
  expect(differences(rows, Object.fromEntries(exitCodeMeanings))).toEqual([]);
});

test('the table of environment variables is that of the program', () => {
  const rows = tableRows(readDocument('docs/configuration.md'), 'Environment variables');
  expect(differences(rows, environmentVariables)).toEqual([]);
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

/** The commands with their full names. Groups are left out, because they have no options. */
const allCommands = commands.flatMap((each): { name: string; options: readonly Option[] }[] => {
  const named = ({ name, options = [] }: Command<never>, prefix = '') => ({
    name: `${prefix}${name}`,
    options,
  });
  return 'commands' in each ? each.commands.map((command) => named(command, `${each.name} `)) : [named(each)];
});

test.each(allCommands)('docs/commands.md lists the options of $name', ({ name, options }) => {
  const rows = tableRows(commandReference, `pets ${name}`);
  expect(rows.map(({ cells }) => withoutBackticks(cells[0]))).toEqual(options.map(({ flags }) => flags));
});

test('docs/commands.md and pets help serve have the same groups of options, in which at most 23 are to be read', async () => {
  const { options = [] } = commands.find(({ name }) => name === 'serve') as Command;
  expect(options.length).toBeLessThanOrEqual(23);
  const { stdout } = await runInTerminal(['help', 'serve']);
  const inHelp = [...stdout.matchAll(/^(\w+):\n(?= +-)|^ +(--[\w-]+)/gm)].map(
    ([, group, flag]) => group ?? flag,
  );
  const section = commandReference.text.split('\n## pets serve\n')[1]?.split('\n## ')[0] ?? '';
  const inTable = [...section.matchAll(/^\| (\w+) \| description|^\| `(--[\w-]+)/gm)].map(
    ([, group, flag]) => group ?? flag,
  );
  expect(inTable.filter((each) => !each?.startsWith('--'))).toEqual([
    'Store',
    'Keys',
    'Faults',
    'Network',
    'Output',
  ]);
  expect(inHelp.slice(0, inTable.length)).toEqual(inTable);
});

test('docs/commands.md lists the options for all formats in which commands print data', () => {
  const rows = tableRows(commandReference, 'Output options');
  const declared = optionsOf({ prints: 'rows', outputOptions: allOutputOptions }).map(({ flags }) => flags);
  expect(rows.map(({ cells }) => withoutBackticks(cells[0]))).toEqual(declared);
});

test('docs/commands.md lists the global options', () => {
  const rows = tableRows(commandReference, 'Global options');
  const declared = globalOptions.map(({ flags }) => flags);
  expect(rows.map(({ cells }) => withoutBackticks(cells[0]))).toEqual(declared);
});

test('the README lists every command', () => {
  const listed = tableRows(readme, 'Commands').map(({ cells }) => withoutBackticks(cells[0]).split(' ')[1]);
  expect(listed).toEqual(expect.arrayContaining([...commands.map(({ name }) => name), 'help']));
});

/** The exit code of the program for an error response of the service. */
function exitCodeOf(code: ErrorCode): number {
  const status = errorCodes[code];
  const error = { code, reason: 'no' };
  const failure = status === 429 ? new RateLimitError(0, { response: error }) : new ApiFailure(status, error);
  const connection: Connection = {
    profile: 'prod',
    baseUrl: 'https://api.example.com/v1',
    key: 'k',
    keySource: 'PETS_API_KEY',
  };
  return describeError(new CallError(failure, connection), {
    clock: { now: () => 0 },
    platform: 'linux',
    console: { timeZone: () => 'UTC' },
  }).exitCode;
}

test('docs/troubleshooting.md lists the error codes of the program, each with its exit code', () => {
  const rows = tableRows(readDocument('docs/troubleshooting.md'), 'Troubleshooting');
  const listed = rows.map(({ cells }) => withoutBackticks(cells[0]));
  const ofService = listed.filter((code) => code in errorCodes) as ErrorCode[];
  const expected = {
    ...Object.fromEntries(ofService.map((code) => [code, String(exitCodeOf(code))])),
    ...Object.fromEntries(Object.entries(cliErrorCodes).map(([code, exit]) => [code, String(exit)])),
  };
  expect(differences(rows, expected)).toEqual([]);
});

test('docs/service.md lists the error codes of the service, each with its status', () => {
  const rows = tableRows(service, '7. Errors').map(({ at, cells: [status = '', code = ''] }) => ({
    at,
    cells: [code, status],
  }));
  const expected = Object.entries(errorCodes).map(([code, status]) => [code, String(status)]);
  expect(differences(rows, Object.fromEntries(expected))).toEqual([]);
});

test('docs/service.md lists the plans', () => {
  const rows = tableRows(service, '8.2 Plans').map(({ cells }) =>
    cells.map((cell) => cell.replaceAll(',', '')),
  );
  const { enterprise, ...fixed } = plans;
  expect(rows.slice(0, -1)).toEqual(
    Object.entries(fixed).map(([plan, { perMinute, perDay }]) => [plan, `${perMinute}`, `${perDay}`]),
  );
  expect(rows.at(-1)?.[0]).toBe('enterprise');
  expect(enterprise).toEqual({ perMinute: 1e9, perDay: 1e12 });
});

test('docs/service.md has each decision from D1 to D17 once', () => {
  const numbers = [...service.text.matchAll(/\*\*D(\d+)\.\*\*/g)].map(([, number]) => Number(number));
  expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 17 }, (_, i) => i + 1));
});
