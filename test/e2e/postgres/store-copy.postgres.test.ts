import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, type Machine, serve } from '../../helpers/pets.ts';
import { freshDatabase } from '../../helpers/postgres.ts';

const check = async (machine: Machine, place: string) => {
  const { stdout } = await machine.pets(['store', 'check', place, '--json']);
  return JSON.parse(stdout);
};

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
