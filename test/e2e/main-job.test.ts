import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, type Machine, petsInShell, serve } from '../helpers/pets.ts';

// These tests run everyday commands against the service that `pets serve` starts.

/** Runs a command that must succeed; returns its stdout. */
async function stdoutOf(machine: Machine, args: readonly string[]): Promise<string> {
  const ran = await machine.pets(args);
  expect(ran).toMatchObject({ code: 0 });
  return ran.stdout;
}

// test/e2e/crash.slow.test.ts tests that animals also survive `kill -9`.
test('acknowledged animals are kept with every digit of their numbers, through a restart and in every format', async () => {
  const big = '-9223372036854775808';
  const machine = await freshMachine();
  const store = join(machine.home, 'store');
  const service = await serve(machine, ['--data', store]);
  await machine.pets(['use', 'local']);
  const pet = `{"id":1,"name":"Rex","categoryId":${big},"status":"available"}`;
  expect(await stdoutOf(machine, ['add', 'Rex', '--category', big, '--json'])).toBe(`${pet}\n`);
  await service.end('SIGTERM');
  expect(await readFile(join(store, 'journal.ndjson'), 'utf8')).toContain(pet);
  await serve(machine, ['--data', store]);
  for (const [line, stdout] of [
    ['list --json', `[${pet}]\n`],
    ['list --ndjson', `${pet}\n`],
    ['list', `1\tRex\t${big}\tavailable\n`],
    ['list --csv', `id,name,categoryId,status\r\n1,Rex,${big},available\r\n`],
    ['get 1 --json', `${pet}\n`],
  ] as const)
    expect(await stdoutOf(machine, line.split(' '))).toBe(stdout);
});

test.each(['ndjson', 'csv'])(
  'a list as %s seeds another store with exactly the same list, whatever the names',
  async (format) => {
    const machine = await freshMachine();
    const service = await serve(machine, ['--data', join(machine.home, 'first')]);
    await machine.pets(['use', 'local']);
    const formulas = ['=1+1', "'=x", "''+", "'", '-', '@a', '\tt', '\rr'];
    const names = [...formulas, '"a,b"', 'two\nlines', 'a\r\nb', '🐈‍⬛', 'é\u0301'];
    const rows = names.map((name, i) => ({ name, categoryId: 10 ** 15 + i }));
    await stdoutOf(machine, ['import', await machine.file('rows.json', JSON.stringify(rows))]);
    const list = () => stdoutOf(machine, ['list', '--all', `--${format}`]);
    const before = await list();
    const json = JSON.parse(await stdoutOf(machine, ['list', '--all', '--json']));
    // Rows that are in flight together can get ids in any order.
    expect(json.map((pet: { name: string }) => pet.name).sort()).toEqual([...names].sort());
    await service.end('SIGTERM');
    const seed = await machine.file(`animals.${format}`, before);
    await serve(machine, ['--data', join(machine.home, 'second'), '--seed', seed]);
    expect(await list()).toBe(before);
    expect(JSON.parse(await stdoutOf(machine, ['list', '--all', '--json']))).toEqual(json);
  },
);

test('pets creates its files with mode 0600 and its directories with mode 0700 under umask 0', async () => {
  const machine = await freshMachine();
  const command = `umask 0
    ${petsInShell} serve --json --port 0 --data store --seed > started &
    until [ -s started ]; do sleep 0.02; done
    pets keys add till --plan free --data store >/dev/null && pets use staging &&
      echo k | pets login --no-verify --base-url https://api.example.com/v1`;
  expect(await machine.shell(`${command}; code=$?; kill $!; wait; exit $code`)).toMatchObject({ code: 0 });
  const names = await readdir(machine.home, { recursive: true });
  expect(names).toContainEqual(expect.stringMatching(/^\.config.pets.stores.[\w-]+\.key$/));
  for (const name of names.filter((each) => /^(store|\.config.pets)/.test(each))) {
    const stats = await stat(join(machine.home, name));
    expect([name, stats.mode & 0o777]).toEqual([name, stats.isDirectory() ? 0o700 : 0o600]);
  }
});
