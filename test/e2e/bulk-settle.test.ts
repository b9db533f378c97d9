import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { inventoryWithoutKeys, type Loss } from '../helpers/express.ts';
import { freshMachine } from '../helpers/pets.ts';
import { randomOf } from '../helpers/store-fixtures.ts';

/** Makes all records of the ledgers a minute older, so that the second import does not wait for earlier requests to end. */
async function passTime(directory: string): Promise<void> {
  const earlier = (_: string, at: string) => `"at":"${new Date(Date.parse(at) - 60_000).toISOString()}"`;
  for (const path of await readdir(directory, { recursive: true })) {
    if (!path.endsWith('ledger.ndjson')) continue;
    const file = join(directory, path);
    await writeFile(file, (await readFile(file, 'utf8')).replace(/"at":"([^"]+)"/g, earlier));
  }
}

const ROWS = 120;

// The service does not support idempotency keys, so the command cannot repeat a request whose response was lost.
test('two runs add every row exactly once, although every tenth response is lost', async () => {
  const pets = [{ id: 1, name: 'animal 7', categoryId: 7, status: 'available' }];
  const service = await inventoryWithoutKeys({ pets, pageSize: 50 });
  const random = randomOf(16);
  const losses: (Loss | undefined)[] = [];
  service.lose = () => {
    const isLost = losses.length > 0 && random() < 0.1;
    losses.push(isLost ? (random() < 0.5 ? 'after adding' : 'before adding') : undefined);
    return losses.at(-1);
  };
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: `http://${service.host}/v1`, key: 'pets_k' });
  // Every animal occurs twice.
  const names = Array.from({ length: ROWS }, (_, i) => `animal ${i % (ROWS / 2)}`);
  const csv = names.map((name) => `${name},7\n`).join('');
  const file = await machine.file('a.csv', `name,category\n${csv}`);

  const first = await machine.command(['import', file, '--json']);
  expect(first.code, first.stderr).toBe(8);
  const unknown = JSON.parse(first.stdout).filter(({ result }: { result: string }) => result === 'unknown');
  const notAdded = losses.filter((loss) => loss === 'before adding').length;
  expect([unknown.length, losses.length]).toEqual([losses.filter(Boolean).length, ROWS]);
  expect([unknown.length > notAdded, notAdded > 0]).toEqual([true, true]);

  service.lose = () => undefined;
  service.sent.length = 0;
  await passTime(join(machine.home, '.local', 'state', 'pets', 'bulk', 'ledgers'));
  const second = await machine.command(['import', file, '--json']);
  expect(second.code, second.stderr).toBe(0);
  expect(service.sent).toHaveLength(notAdded);
  expect(service.pets.map(({ name }) => name).sort()).toEqual(['animal 7', ...names].sort());
  const added = JSON.parse(second.stdout);
  expect(new Set(added.map(({ pet }: { pet: { id: number } }) => pet.id)).size).toBe(ROWS);
});
