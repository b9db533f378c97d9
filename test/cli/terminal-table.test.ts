import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, replyError } from '../helpers/scripted-server.ts';

// The output of pets list on terminals of several widths.

const PETS = [
  { id: 7, name: 'Rex', categoryId: 3, status: 'available' },
  {
    id: 1234,
    name: 'The Right Honourable Sir Barkington of Woofshire, third of his name 🐶',
    categoryId: 9007199254740,
    status: 'sold',
  },
  { id: 8, name: 'evil\u001b[31m\u202e\ttab', categoryId: 3, status: 'pending' },
];

const list: Handler = respondWith(PETS);

describe('a table', () => {
  test.each([40, 60, 80, 200])('fits %i columns and has every row', async (columns) => {
    const { code, stdout } = await runAgainst(list, ['list', '--color', 'never'], { columns });
    const lines = stdout.trimEnd().split('\n');
    expect(code).toBe(0);
    expect(lines).toHaveLength(4);
    expect(lines[0]).toMatch(/^ +ID {2}NAME +CATEGORY {2}STATUS$/);
    for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
    expect(lines[1]).toMatch(/^ {3}7 {2}Rex +3 {2}available$/);
    expect(lines[2]?.includes('third of his name 🐶 ')).toBe(columns === 200);
    expect(lines[2]).toMatch(/^1234 {2}The R.*9007199254740 {2}sold$/);
  });

  test.each<[string[], Record<string, string>, boolean]>([
    [[], {}, true],
    [['--color', 'never'], { FORCE_COLOR: '1' }, false],
    [['--color', 'always'], { NO_COLOR: '1' }, true],
    [[], { NO_COLOR: '1' }, false],
    [[], { NO_COLOR: '1', FORCE_COLOR: '1' }, false],
    [[], { NO_COLOR: '', FORCE_COLOR: '0' }, false],
    [[], { TERM: 'dumb' }, false],
  ])('with %j and %j has colours: %s', async (flags, env, isColoured) => {
    const { stdout, stderr } = await runAgainst(list, ['list', ...flags], { columns: 80, env });
    expect(stdout.includes('\u001b[32mavailable')).toBe(isColoured);
    expect(/\u001b\[\d/.test(stdout + stderr)).toBe(isColoured);
  });
});

test('an error in a pipe has colours only with FORCE_COLOR', async () => {
  const plain = await runAgainst((_, response) => replyError(response, 400), ['list']);
  expect(plain.stderr).toMatch(/^error: /);
  const forced = await runAgainst(() => {}, ['list', '--limit', '0'], { env: { FORCE_COLOR: '1' } });
  expect(forced.stderr).toContain('\u001b[31merror:');
});
