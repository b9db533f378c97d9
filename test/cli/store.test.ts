import { mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';

/**
 * A machine with a store, whose service has ended. The store has the sample animals, one more animal and two API keys.
 * `copyArgs` is a command that copies it to `copy`.
 */
async function machineWithClosedStore() {
  const machine = await freshMachine();
  const [directory, copy] = [join(machine.home, 'store'), join(machine.home, 'copy')];
  const service = await serve(machine, ['--data', directory, '--seed', '--plan', 'enterprise']);
  await machine.pets(['--profile', 'local', 'add', 'Rex', '--category', '1']);
  await machine.pets(['keys', 'add', 'till', '--plan', 'free', '--data', directory]);
  await service.end('SIGTERM');
  const copyArgs = ['store', 'copy', directory, copy];
  return { machine, directory, journal: join(directory, 'journal.ndjson'), copy, copyArgs };
}

const REPORT = { animals: 67, orders: 20, keys: 2, lastId: 67, sequence: 22 };

const check = async (machine: Machine, directory: string) => {
  const { code, stdout, stderr } = await machine.pets(['store', 'check', directory, '--json']);
  return { code, report: stdout && JSON.parse(stdout), error: stderr && JSON.parse(stderr).error };
};

test('pets store check prints the animals, the last id and the sequence number of the store at its argument or PETS_DATA', async () => {
  const { machine, directory } = await machineWithClosedStore();
  const { stdout } = await machine.pets(['store', 'check'], { env: { PETS_DATA: directory } });
  expect(stdout).toMatch(/animals +67\n {2}last id +67\n {2}sequence number +22\n {2}orders +20\n/);
  expect((await check(machine, directory)).report).toMatchObject({ directory, ...REPORT });
  const none = `${directory}s`;
  const hint = `check the directory or URL; to create a store there: pets serve --data ${none}`;
  expect(await check(machine, none)).toMatchObject({ code: 1, error: { hint } });
});

test.each<[string, (path: { journal: string; directory: string }) => Promise<unknown>, RegExp]>([
  [
    'a shortened journal',
    ({ journal }) => readFile(journal).then(({ length }) => truncate(journal, length - 5)),
    /the journal in .* does not end with a valid record: \d+ bytes after byte \d+ are not valid/,
  ],
  [
    'a changed journal',
    async ({ journal }) =>
      writeFile(journal, (await readFile(journal, 'utf8')).replace('"id":1,', '"id":2,')),
    /damaged at byte \d+/,
  ],
  ['damaged bans', ({ directory }) => writeFile(join(directory, 'bans.json'), 'x'), /bans\.json is/],
  ['no journal', ({ journal }) => rm(journal), /journal\.ndjson is missing, but .*: .*keys/],
])('pets store check fails for a store with %s, and changes nothing', async (_, damage, message) => {
  const { machine, directory, journal, copyArgs } = await machineWithClosedStore();
  await damage({ journal, directory });
  const names = await readdir(machine.home, { recursive: true });
  const error = { code: 'store_error', message: expect.stringMatching(message) };
  expect(await check(machine, directory)).toMatchObject({ code: 1, error });
  // A journal that ends early can be copied.
  if (!message.source.includes('are not valid')) expect((await machine.pets(copyArgs)).code).toBe(1);
  expect(await readdir(machine.home, { recursive: true })).toEqual(names);
});

test('pets store copy copies to an empty directory with progress on a terminal, prints its counts, and refuses any other', async () => {
  const { machine, directory, copy, copyArgs } = await machineWithClosedStore();
  await mkdir(copy);
  const { code, stdout, stderr } = await machine.pets(copyArgs, { columns: 80, env: { NO_COLOR: '1' } });
  const counts = /animals +67\n.*orders +20\n {2}API keys +2\n$/s;
  expect([code, stdout]).toEqual([0, expect.stringMatching(counts)]);
  for (const status of ['copied 0 of 67 animals', 'copied 67 of 67 animals'])
    expect(stderr).toContain(status);
  // The copy has all animals in one record, so its sequence number is lower by 1.
  expect((await check(machine, copy)).report).toMatchObject({ ...REPORT, sequence: 21 });
  for (const target of [copy, directory, join(directory, 'journal.ndjson')]) {
    const ran = await machine.pets(['store', 'copy', directory, target]);
    const refused = /is not empty|not a directory|is both the source and the target/;
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringMatching(refused) });
  }
});

test('pets store copy removes what it has written if it is interrupted: exit code 130', async () => {
  const { machine, copy, copyArgs } = await machineWithClosedStore();
  await mkdir(copy);
  const program = machine.startProgram(copyArgs);
  await expect.poll(() => program.handlersLeft(), { interval: 0 }).toBe(1);
  program.raise('SIGTERM');
  expect([await program.ended, program.stdout()]).toEqual([130, '']);
  expect([await readdir(copy), program.handlersLeft()]).toEqual([[], 0]);
});
