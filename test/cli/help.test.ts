import { describe, expect, test } from 'vitest';
import { commands } from '../../src/cli/commands/index.ts';
import { runInTerminal } from '../helpers/context.ts';

const pages = [
  [],
  ...commands.flatMap((entry) => [
    [entry.name],
    ...('commands' in entry ? entry.commands.map(({ name }) => [entry.name, name]) : []),
  ]),
  ['exit-codes'],
  ['environment'],
];

describe.each([40, 60, 80, 200])('help on %i columns', (columns) => {
  test.each(pages)('%s %s fits; only below 80 columns, commands are longer', async (...names) => {
    const { code, stdout, stderr } = await runInTerminal(['help', ...names.filter(Boolean)], { columns });
    expect([code, stderr]).toEqual([0, '']);
    // Commands stay on one line, so that they can be copied.
    const isCommand = (line: string) => columns < 80 && /^(Usage:| {2})? ?pets /.test(line);
    const width = Math.min(columns, 80);
    const long = stdout.split('\n').filter((line) => line.length > width && !isCommand(line));
    expect(long).toEqual([]);
  });
});

test('examples come first, grouped by kind of user', async () => {
  const { stdout } = await runInTerminal(['--help']);
  const order = ['In the shop:', 'In a script:', 'On your own machine:', 'Usage:', 'Options:', 'Commands:'];
  const places = order.map((words) => stdout.indexOf(words));
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(places[0]).toBeGreaterThan(0);
});

test('-h, --help and pets help print the same page, including the global options', async () => {
  const [help, short, long] = await Promise.all(
    [
      ['help', 'list'],
      ['list', '-h'],
      ['list', '--help'],
    ].map((argv) => runInTerminal(argv)),
  );
  expect(short).toEqual(help);
  expect(long).toEqual(help);
  expect(help?.stdout).toMatch(/^list animals\n\nExamples:\n {2}pets list/);
  expect(help?.stdout).toContain('--profile <name>');
});

test.each([
  [['--json', 'keys', 'list', '--data', 'nowhere']],
  [['keys', '--json', 'list', '--data', 'nowhere']],
  [['keys', 'list', '--data', 'nowhere', '--json']],
])('a global option may precede or follow the command: %j', async (argv) => {
  const { stdout, stderr } = await runInTerminal(argv);
  expect(JSON.parse(stdout || stderr)).toBeDefined();
});
