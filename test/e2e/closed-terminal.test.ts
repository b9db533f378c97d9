import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { freshMachine, petsInShell } from '../helpers/pets.ts';
import { openTerminal } from '../helpers/pseudo-terminal.ts';
import { testAtTerminal } from '../helpers/skip.ts';

testAtTerminal('pets serve exits with 0 if its terminal is closed', async () => {
  const machine = await freshMachine();
  // The shell gets the signal when its terminal ends, passes it on, and writes the exit code.
  const line = `${petsInShell} serve --ephemeral --port 0 & trap 'kill -HUP $!' HUP; wait; wait $!; echo $? > code`;
  const terminal = openTerminal(machine, line);
  await terminal.waitFor('try:');
  terminal.close();
  const code = () => readFile(join(machine.home, 'code'), 'utf8').catch(() => undefined);
  await expect.poll(code).toBe('0\n');
});
