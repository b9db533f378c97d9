import { describe, expect, test } from 'vitest';
import { runInTerminal } from '../helpers/context.ts';

const pages = [[], ['list'], ['add'], ['keys'], ['keys', 'add'], ['serve'], ['exit-codes'], ['environment']];

describe.each([40, 60, 80, 200])('help on %i columns', (columns) => {
  test.each(pages)('%s %s: fits, but for commands, which can be copied', async (...names) => {
    const { code, stdout, stderr } = await runInTerminal(['help', ...names.filter(Boolean)], { columns });
    expect([code, stderr]).toEqual([0, '']);
    const isCommand = (line: string) => /^(Usage:| {2})? ?pets /.test(line);
    const long = stdout.split('\n').filter((line) => line.length > columns && !isCommand(line));
    expect(long).toEqual([]);
  });
});

test('examples come first, for each of the users', async () => {
  const { stdout } = await runInTerminal(['--help']);
  const order = ['In the shop:', 'In a script:', 'On your own machine:', 'Usage:', 'Options:', 'Commands:'];
  const places = order.map((words) => stdout.indexOf(words));
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(places[0]).toBeGreaterThan(0);
});

test('-h behind a command, and help before it, are the same page, which has the global options too', async () => {
  const [before, behind, long] = await Promise.all(
    [
      ['help', 'list'],
      ['list', '-h'],
      ['list', '--help'],
    ].map((argv) => runInTerminal(argv)),
  );
  expect(behind).toEqual(before);
  expect(long).toEqual(before);
  expect(before?.stdout).toMatch(/^list animals\n\nExamples:\n {2}pets list/);
  expect(before?.stdout).toContain('--profile <name>');
});

test.each([
  [['--json', 'keys', 'list', '--data', 'nowhere']],
  [['keys', '--json', 'list', '--data', 'nowhere']],
  [['keys', 'list', '--data', 'nowhere', '--json']],
])('an option of every command stands before or behind it: %j', async (argv) => {
  const { stdout, stderr } = await runInTerminal(argv);
  expect(JSON.parse(stdout || stderr)).toBeDefined();
});
