import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openJournalStore } from '../../../src/store/journal/journal-store.ts';
import { freshMachine, type Machine, serve } from '../../helpers/pets.ts';
import { freshDatabase, PASSWORD, sharedCluster, USER_WITH_PASSWORD } from '../../helpers/postgres.ts';
import { animal } from '../../helpers/store-fixtures.ts';

const check = async (machine: Machine, place: string) => {
  const { stdout } = await machine.pets(['store', 'check', place, '--json']);
  return JSON.parse(stdout);
};

const databaseOf = (url: string): string => new URL(url).pathname.slice(1);

const _schemas = (url: string) =>
  sharedCluster().sql(databaseOf(url), "select from pg_namespace where nspname = 'pets'");

/** A machine with a store of this many animals in `store`. */
async function machineWithAnimals(count: number) {
  const machine = await freshMachine();
  const directory = join(machine.home, 'store');
  await mkdir(directory);
  const store = await openJournalStore({ directory });
  const pets = Array.from({ length: count }, (_, i) => ({ id: BigInt(i + 1), ...animal() }));
  await store.seed({ pets, orders: [] });
  await store.close();
  return { machine, directory };
}

test('a service moves from a directory to a database and back, with its keys', async () => {
  const machine = await freshMachine();
  const url = await freshDatabase();
  const [directory, back] = [join(machine.home, 'store'), join(machine.home, 'back')];
  const first = await serve(machine, ['--data', directory, '--seed', '--plan', 'enterprise']);
  await machine.pets(['--profile', 'local', 'add', 'Rex', '--category', '1']);
  const moved = await machine.pets(['store', 'copy', directory, url]);
  expect([moved.code, moved.stderr]).toEqual([0, '']);
  const counts = ['animals', 'last id', 'orders', 'API keys'].map((name) => name.padEnd(15));
  const values = ['67 of 67', '67', '20 of 20', '1 of 1'];
  const lines = counts.map((name, i) => `  ${name}  ${values[i]}\n`).join('');
  expect(moved.stdout).toBe(`${url}\n${lines}`);
  await first.end('SIGTERM');

  const second = await serve(machine, ['--data', url, '--no-profile']);
  const headers = { Authorization: `Bearer ${first.key}`, 'Content-Type': 'application/json' };
  const body = '{"name":"Max","categoryId":1}';
  const added = await fetch(`${second.url}/pets`, { method: 'POST', headers, body });
  expect(await added.json()).toMatchObject({ id: 68 });
  const { code, stdout } = await machine.pets(['store', 'copy', url, back, '--json']);
  const { id } = await check(machine, directory);
  const report = { id, animals: 68, orders: 20, keys: 1, lastId: 68 };
  expect([code, JSON.parse(stdout)]).toEqual([0, { ...report, directory: back, sequence: 21 }]);
  expect(await check(machine, url)).toEqual({ ...report, directory: url, sequence: null });
  await second.end('SIGTERM');

  const third = await serve(machine, ['--data', back, '--no-profile']);
  expect((await fetch(`${third.url}/pets/68`, { headers })).status).toBe(200);
  await third.end('SIGTERM');
});

test('errors of a copy name the database without its password', async () => {
  const { machine, directory } = await machineWithAnimals(1);
  const url = await freshDatabase();
  const { host, pathname } = new URL(url);
  const place = `postgres://${USER_WITH_PASSWORD}@${host}${pathname}`;
  const withPassword = place.replace('@', `:${encodeURIComponent(PASSWORD)}@`);
  const copy = (from: string, to: string) => machine.pets(['store', 'copy', from, to]);
  expect(await copy(directory, withPassword)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(place),
  });
  for (const [from, to, message] of [
    [directory, withPassword, `${place} contains this store or a copy of it`],
    [withPassword, withPassword, `${place} is both the source and the target`],
    [withPassword.replace(pathname, '/none'), join(machine.home, 'copy'), 'database "none" does not exist'],
  ] as const) {
    const { code, stdout, stderr } = await copy(from, to);
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining(message)]);
    expect(stderr).not.toContain(encodeURIComponent(PASSWORD));
    expect(stderr).not.toContain(PASSWORD);
  }
  expect(await readdir(machine.home)).toEqual(['store']);
});
