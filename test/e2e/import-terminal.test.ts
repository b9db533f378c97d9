import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { freshMachine, petsInShell } from '../helpers/pets.ts';
import { recordTerminal, screenLines } from '../helpers/pseudo-terminal.ts';
import { replyError, scriptedServer } from '../helpers/scripted-server.ts';
import { testAtTerminal } from '../helpers/skip.ts';

testAtTerminal.each([
  ['an answer', 'n\r', 'error: not confirmed; no row was sent', 1],
  ['Ctrl-C', '\x03', 'error: interrupted', 130],
])('the question about rows from a pipe reads %s from the terminal', async (_name, text, error, code) => {
  const { home, env } = await freshMachine();
  const server = await scriptedServer((_, response) => replyError(response, 500));
  await writeFile(join(home, 'rows.csv'), 'name,category\nRex,1\n');
  const profile = JSON.stringify({ baseUrl: server.url, key: 'pets_secret_key' });
  await writeFile(join(home, 'prod.json'), profile, { mode: 0o600 });
  const line = `cat rows.csv | ${petsInShell} import - --format csv; echo "exit $?"`;
  const screen = await recordTerminal(line, {
    cwd: home,
    env: { ...env, PETS_CONFIG_DIR: home },
    columns: 80,
    rows: 24,
    typed: [{ after: /\[y\/N\] ?$/, text }],
    timeoutMilliseconds: 20_000,
  });
  const shown = screenLines(screen).join('\n');
  expect(shown).toMatch(/This cannot be undone\. Add 1 row at 127\.0\.0\.1:\d+ \(profile prod\)\? \[y\/N\]/);
  expect(shown).toContain(error);
  expect(shown).toContain(`exit ${code}`);
  expect(server.requests).toEqual([]);
});
