import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, serve } from '../../helpers/pets.ts';
import { freshDatabase } from '../../helpers/postgres.ts';

test('pets store copy moves a service from a directory to a database, with its key', async () => {
  const machine = await freshMachine();
  const url = await freshDatabase();
  const directory = join(machine.home, 'store');
  const first = await serve(machine, ['--data', directory, '--seed']);
  await first.end('SIGTERM');
  const { code, stdout } = await machine.pets(['store', 'copy', directory, url, '--json']);
  const report = { animals: 66, orders: 20, keys: 1, lastId: 66 };
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { ...report, directory: url, sequence: null }]);
  const second = await serve(machine, ['--data', url, '--no-profile']);
  const headers = { Authorization: `Bearer ${first.key}` };
  expect((await fetch(`${second.url}/pets/66`, { headers })).status).toBe(200);
});
