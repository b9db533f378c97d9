import { expect, test } from 'vitest';
import { helpTopics } from '../../src/cli/commands/help.ts';
import { commands } from '../../src/cli/main.ts';
import { globalOptions } from '../../src/cli/program/program.ts';
import { hintFor } from '../../src/cli/program/words.ts';
import { runInTerminal } from '../helpers/context.ts';

const pages = [
  '',
  ...commands.flatMap((entry) => [
    entry.name,
    ...('commands' in entry ? entry.commands.map(({ name }) => `${entry.name} ${name}`) : []),
  ]),
  ...Object.keys(helpTopics),
];
const helpOf = (page: string) => runInTerminal(['help', ...page.split(' ').filter(Boolean)]);

test.each(pages)('pets help %s fits on 40 lines of 80 columns', async (page) => {
  const { code, stdout, stderr } = await helpOf(page);
  expect([code, stderr]).toEqual([0, '']);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expect(lines.length).toBeLessThanOrEqual(/^(list|find|count|get|add)$/.test(page) ? 24 : 40);
});

test('a remark in an example is a comment of the shell, so that the line can be copied', async () => {
  for (const page of pages)
    expect((await helpOf(page)).stdout.split('Examples:')[1] ?? '').not.toMatch(/\S {2,}(?!# )\S/);
});

test('no command is also a word whose hint names another command', () => {
  for (const { name } of commands) expect(hintFor(name), name).toBeUndefined();
});

test('words that people type instead of a command or option have an answer', () => {
  const words = 'sell sold edit change fix delete remove print open backup reset status ping stop logs docs';
  const options = ['list --since', '--retries', '--price', '--yaml'];
  for (const word of [...words.split(' '), 'openapi', 'docker', 'retries', 'timeout', ...options])
    expect(hintFor(word), word).toBeDefined();
});

test.each([[[]], [['--help']]])('%j fits on 24 lines, with the prompt below it', async (argv) => {
  const { stdout } = await runInTerminal(argv);
  const advice = 'shorten the texts of createProgram (program.ts) or startPage (commands/help.ts)';
  expect(stdout.split('\n').length, advice).toBeLessThanOrEqual(24);
});

test('a command group without a command prints its help', async () => {
  expect(await runInTerminal(['keys'])).toEqual(await helpOf('keys'));
  const { code, stdout, stderr } = await runInTerminal(['keys', '--json']);
  expect([code, stdout, JSON.parse(stderr).error.message]).toEqual([2, '', 'missing command']);
});

test('-h, --help and pets help print the same page; the global options are on one of their own', async () => {
  const help = await helpOf('list');
  for (const argv of [
    ['list', '-h'],
    ['list', '--help'],
    ['help', 'ls'],
  ])
    expect(await runInTerminal(argv)).toEqual(help);
  expect(help.stdout).not.toContain('--profile <name>');
  const { stdout } = await helpOf('global');
  for (const flags of ['-V, --version', '-h, --help', ...globalOptions.map((each) => each.flags)])
    expect(stdout).toContain(`  ${flags} `);
});

test.each([
  [['--json', 'keys', 'list', '--data', 'nowhere']],
  [['keys', '--json', 'list', '--data', 'nowhere']],
  [['keys', 'list', '--data', 'nowhere', '--json']],
])('a global option may precede or follow the command: %j', async (argv) => {
  const { stdout, stderr } = await runInTerminal(argv);
  expect(JSON.parse(stdout || stderr)).toBeDefined();
});
