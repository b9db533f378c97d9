import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { expectNoLeaks } from '../helpers/failure.ts';
import { freshMachine, type Machine, petsInShell, serve } from '../helpers/pets.ts';

// These tests run everyday commands against the service that `pets serve` starts.

const storeOf = ({ home }: Machine) => join(home, 'store');

/** Runs a command that must succeed; returns its stdout. */
async function stdoutOf(machine: Machine, args: readonly string[]): Promise<string> {
  const ran = await machine.pets(args);
  expectNoLeaks(ran);
  expect(ran).toMatchObject({ code: 0 });
  return ran.stdout;
}

/** Like `stdoutOf`, but adds --json and parses the output. */
const jsonOf = async (machine: Machine, args: readonly string[]) =>
  JSON.parse(await stdoutOf(machine, [...args, '--json']));

// test/e2e/crash.slow.test.ts tests that animals also survive `kill -9`.
test('acknowledged animals are kept with every digit of their numbers, through a restart and in every format', async () => {
  const big = '-9223372036854775808';
  const machine = await freshMachine();
  const service = await serve(machine, ['--data', storeOf(machine)]);
  await machine.pets(['use', 'local']);
  const pet = `{"id":1,"name":"Rex","categoryId":${big},"status":"available"}`;
  expect(await stdoutOf(machine, ['add', 'Rex', '--category', big, '--json'])).toBe(`${pet}\n`);
  const everywhere = async () => {
    expect(await stdoutOf(machine, ['list', '--json'])).toBe(`[${pet}]\n`);
    expect(await stdoutOf(machine, ['list', '--ndjson'])).toBe(`${pet}\n`);
    expect(await stdoutOf(machine, ['list'])).toBe(`1\tRex\t${big}\tavailable\n`);
    expect(await stdoutOf(machine, ['list', '--csv'])).toContain(`\r\n1,Rex,${big},available\r\n`);
    expect(await stdoutOf(machine, ['get', '1', '--json'])).toBe(`${pet}\n`);
  };
  await everywhere();
  await service.end('SIGTERM');
  expect(await readFile(join(machine.home, 'store', 'journal.ndjson'), 'utf8')).toContain(pet);
  await serve(machine, ['--data', storeOf(machine)]);
  await everywhere();
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
    const file = await machine.file('rows.json', JSON.stringify(rows));
    await stdoutOf(machine, ['import', file]);
    const before = await stdoutOf(machine, ['list', '--all', `--${format}`]);
    await service.end('SIGTERM');
    const seed = await machine.file(`animals.${format}`, before);
    await serve(machine, ['--data', join(machine.home, 'second'), '--seed', seed]);
    expect(await stdoutOf(machine, ['list', '--all', `--${format}`])).toBe(before);
    const after = await jsonOf(machine, ['list', '--all']);
    // Rows that are in flight together can get ids in any order.
    expect(after.map((pet: { name: string }) => pet.name).sort()).toEqual([...names].sort());
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
  expect(await readdir(join(machine.configDirectory, 'stores'))).toHaveLength(1);
  const modes: Record<string, string> = {};
  for (const root of ['store', join('.config', 'pets')]) {
    const below = await readdir(join(machine.home, root), { recursive: true });
    for (const name of ['', ...below]) {
      const stats = await stat(join(machine.home, root, name));
      const mode = (stats.mode & 0o777).toString(8);
      if (mode !== (stats.isDirectory() ? '700' : '600')) modes[join(root, name)] = mode;
    }
  }
  expect(modes).toEqual({});
});
