import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { expectFailure } from '../helpers/failure.ts';
import { listAllPets } from '../helpers/list-all-pets.ts';
import { freshMachine, serve } from '../helpers/pets.ts';

// Seed files and data directories that pets serve or pets keys cannot use.

// test/cli/seed-file.test.ts has the errors of each format.
test.each<[name: string, content: string | undefined, exit: number, ...contains: string[]]>([
  ['a.csv', 'name,categoryId\r\nRex,1\r\nBella,\r\n', 2, 'line 3', 'category is required'],
  ['gone.csv', undefined, 1, 'no such file or directory', 'check the path: /'],
])('a seed file with errors adds nothing: %s', async (name, content, exit, ...contains) => {
  const machine = await freshMachine();
  const path = join(machine.home, name);
  if (content !== undefined) await writeFile(path, content);
  const data = join(machine.home, 'data');
  const args = ['serve', '--port', '0', '--no-profile'];
  await expectFailure(machine, [...args, '--ephemeral', '--seed', path], { exit, contains: [path] });
  const ran = await machine.pets([...args, '--data', data, '--seed', path]);
  expect(ran).toMatchObject({ code: exit, stdout: '' });
  for (const words of contains) expect(ran.stderr).toContain(words);
  await expect(readdir(data)).rejects.toThrow('ENOENT');
});

test('a second service on the same directory: the error shows pid and URL of the first', async () => {
  const machine = await freshMachine();
  const data = join(machine.home, 'data');
  const first = await serve(machine, ['--data', data, '--seed', '--no-profile']);
  const contains = [data, `pid ${first.pid}`, first.url];
  const args = ['serve', '--port', '0', '--no-profile', '--data', data];
  await expectFailure(machine, args, { exit: 1, code: 'store_error', contains });
  expect(await listAllPets(first)).not.toEqual([]);
});

test('pets keys refuses a name that could be a path, and limits that the plan does not allow', async () => {
  const machine = await freshMachine();
  const data = join(machine.home, 'data');
  await (await serve(machine, ['--data', data, '--no-profile'])).end('SIGTERM');
  for (const [line, exit, text] of [
    ['revoke ../x', 3, 'no key named "../x"'],
    ['add ../x --plan free', 2, 'name must have'],
    ['add x --plan free --per-minute 1 --per-day 1', 2, 'need --plan enterprise'],
  ] as const)
    await expectFailure(machine, ['keys', ...line.split(' '), '--data', data], { exit, contains: [text] });
});
