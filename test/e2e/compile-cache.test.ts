import { readdir, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { KEY, PET } from '../helpers/client.ts';
import { EXECUTABLE, freshMachine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { testIf } from '../helpers/skip.ts';

const [line = 0] = process.versions.node.split('.').map(Number);
const canCache = EXECUTABLE === undefined && line >= 22;

/** A machine with a service. `list` runs the built command, `files` returns the files in the compile cache. */
async function cachedMachine() {
  const server = await scriptedServer((_request, response) =>
    reply(response, 200, [PET], { 'Idempotency-Supported': 'true' }),
  );
  const machine = await freshMachine();
  const list = async (more: Record<string, string> = {}) => {
    const env = { PETS_BASE_URL: server.url, PETS_API_KEY: KEY, ...more };
    const { code, stdout, stderr } = await machine.command(['list', '--json'], { env });
    // Node prints its debug output on the same stream as the program, but on lines of its own.
    const json = stdout.split('\n').find((text) => text.startsWith('[{'));
    expect([code, JSON.parse(json ?? '')]).toEqual([0, [PET]]);
    return stdout + stderr;
  };
  const directory = join(machine.home, '.local', 'state', 'pets', 'compiled');
  const files = async () => {
    const all = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
    return all.filter((each) => each.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  };
  return { list, files };
}

testIf(canCache, 'Node 20 and an executable have no compile cache')(
  'from the second command on, compiled code is cached, and used unless damaged',
  async () => {
    const { list, files } = await cachedMachine();
    await list();
    expect(await files()).toEqual([]);
    await list();
    const kept = await files();
    expect(kept).not.toEqual([]);
    const log = await list({ NODE_DEBUG_NATIVE: 'COMPILE_CACHE' });
    for (const chunk of ['main', 'client'])
      expect(log).toMatch(new RegExp(`cache for (CommonJS )?\\S+/${chunk}-\\S+ was accepted`));
    expect(await files()).toEqual(kept);
    for (const path of await files()) await truncate(path, 100);
    await list();
  },
);
