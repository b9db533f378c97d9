import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, petsInShell, serve } from '../helpers/pets.ts';

// These tests run everyday commands against the service that `pets serve` starts.

// test/e2e/crash.slow.test.ts tests that animals also survive `kill -9`.
test('acknowledged animals are kept with every digit of their numbers, through a restart and in every format', async () => {
  const big = '-9223372036854775808';
  const machine = await freshMachine();
  const store = join(machine.home, 'store');
  const service = await serve(machine, ['--data', store]);
  await machine.pets(['use', 'local']);
  const pet = `{"id":1,"name":"Rex","categoryId":${big},"status":"available"}`;
  const prints = async (line: string, stdout: string) =>
    expect(await machine.pets(line.split(' '))).toMatchObject({ code: 0, stdout });
  await prints(`add Rex --category ${big} --json`, `${pet}\n`);
  await service.end('SIGTERM');
  expect(await readFile(join(store, 'journal.ndjson'), 'utf8')).toContain(pet);
  await serve(machine, ['--data', store]);
  await prints('list --json', `[${pet}]\n`);
  await prints('list --ndjson', `${pet}\n`);
  await prints('list', `1\tRex\t${big}\tavailable\n`);
  await prints('list --csv', `id,name,categoryId,status\r\n1,Rex,${big},available\r\n`);
  await prints('get 1 --json', `${pet}\n`);
});

test('pets creates its files with mode 0600 and its directories with mode 0700 under umask 0', async () => {
  const machine = await freshMachine();
  const command = `umask 0
    ${petsInShell} serve --json --port 0 --data deep/store --seed > started &
    until [ -s started ]; do sleep 0.02; done
    pets keys add till --plan free --data deep/store >/dev/null && pets use staging &&
      echo k | pets login --no-verify --base-url https://api.example.com/v1`;
  expect(await machine.shell(`${command}; code=$?; kill $!; wait; exit $code`)).toMatchObject({ code: 0 });
  const names = await readdir(machine.home, { recursive: true });
  expect(names).toContainEqual(expect.stringMatching(/^\.config.pets.stores.[\w-]+\.key$/));
  for (const name of names.filter((each) => /^(deep|\.config.pets)/.test(each))) {
    const stats = await stat(join(machine.home, name));
    expect([name, stats.mode & 0o777]).toEqual([name, stats.isDirectory() ? 0o700 : 0o600]);
  }
});
