import { expect, test } from 'vitest';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { replyError } from '../helpers/scripted-server.ts';

const list = respondWith([{ id: 7, name: 'Rex', categoryId: 3, status: 'available' }]);

test.each<[string[], Record<string, string>, boolean]>([
  [[], {}, true],
  [['--color', 'never'], { FORCE_COLOR: '1' }, false],
  [['--color', 'always'], { NO_COLOR: '1' }, true],
  [[], { NO_COLOR: '1' }, false],
  [[], { NO_COLOR: '1', FORCE_COLOR: '1' }, false],
  [[], { NO_COLOR: '', FORCE_COLOR: '0' }, false],
  [[], { TERM: 'dumb' }, false],
])('a table with %j and %j has colours: %s', async (flags, env, isColoured) => {
  const { stdout, stderr } = await runAgainst(list, ['list', ...flags], { columns: 80, env });
  expect(stdout.includes('\u001b[32mavailable')).toBe(isColoured);
  expect(/\u001b\[\d/.test(stdout + stderr)).toBe(isColoured);
});

test('an error in a pipe has colours only with FORCE_COLOR', async () => {
  const plain = await runAgainst((_, response) => replyError(response, 400), ['list']);
  expect(plain.stderr).toMatch(/^error: /);
  const forced = await runAgainst(() => {}, ['list', '--limit', '0'], { env: { FORCE_COLOR: '1' } });
  expect(forced.stderr).toContain('\u001b[31merror:');
});
