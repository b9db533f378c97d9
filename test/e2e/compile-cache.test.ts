import { readdir, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { KEY } from '../helpers/client.ts';
import { EXECUTABLE, freshMachine } from '../helpers/pets.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';
import { testIf } from '../helpers/skip.ts';

const [line = 0] = process.versions.node.split('.').map(Number);
const canCache = EXECUTABLE === undefined && line >= 22;

testIf(canCache, 'Node 20 and an executable have no compile cache')(
  'from the second command on, compiled code is cached, and used unless damaged',
  async () => {
    const handler: Handler = (_, response) => reply(response, 200, [], { 'Idempotency-Supported': 'true' });
    const { url } = await scriptedServer(handler);
    const machine = await freshMachine();
    const list = async () => {
      const env = { PETS_BASE_URL: url, PETS_API_KEY: KEY, NODE_DEBUG_NATIVE: 'COMPILE_CACHE' };
      const { code, stdout, stderr } = await machine.command(['list', '--json'], { env });
      expect([code, stdout]).toEqual([0, expect.stringMatching(/^\[\]$/m)]);
      return /cache for .*client-\S+ was accepted/.test(stdout + stderr);
    };
    expect([await list(), await list(), await list()]).toEqual([false, false, true]);
    const all = await readdir(machine.home, { recursive: true, withFileTypes: true });
    for (const { parentPath, name } of all.filter(
      (each) => each.parentPath.includes('compiled') && each.isFile(),
    ))
      await truncate(join(parentPath, name), 100);
    expect(await list()).toBe(false);
  },
);
