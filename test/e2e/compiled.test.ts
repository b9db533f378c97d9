import { readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { KEY, PET } from '../helpers/client.ts';
import { freshMachine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

const [line = 0] = process.versions.node.split('.').map(Number);

/** A machine that has listed animals so many times, and the files of compiled code that are on it now. */
async function listed() {
  const server = await scriptedServer((_request, response) =>
    reply(response, 200, [PET], { 'Idempotency-Supported': 'true' }),
  );
  const machine = await freshMachine();
  const list = async () => {
    const env = { PETS_BASE_URL: server.url, PETS_API_KEY: KEY };
    const { code, stdout } = await machine.pets(['list', '--json'], { env });
    expect([code, JSON.parse(stdout)]).toEqual([0, [PET]]);
  };
  const directory = join(machine.home, '.local', 'state', 'pets', 'compiled');
  const files = async () => {
    const all = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
    return all.filter((each) => each.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  };
  return { list, files };
}

test.runIf(line >= 22)(
  'what is compiled is kept from the second command on, for this user alone',
  async () => {
    const { list, files } = await listed();
    await list();
    expect(await files()).toEqual([]);
    await list();
    const kept = await files();
    expect(kept).not.toEqual([]);
    for (const path of kept) expect((await stat(path)).mode & 0o077).toBe(0);
    await list();
    expect(await files()).toEqual(kept);
  },
);

test.runIf(line >= 22)('what was kept and is damaged is compiled anew', async () => {
  const { list, files } = await listed();
  await list();
  await list();
  for (const path of await files()) await truncate(path, 100);
  await list();
});

test.runIf(line < 22)('nothing is kept on Node 20', async () => {
  const { list, files } = await listed();
  await list();
  await list();
  expect(await files()).toEqual([]);
});
