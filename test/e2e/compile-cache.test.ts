import { readdir, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { EXECUTABLE, machineWithServer } from '../helpers/pets.ts';
import { reply } from '../helpers/scripted-server.ts';
import { testIf } from '../helpers/skip.ts';

const [line = 0] = process.versions.node.split('.').map(Number);
const canCache = EXECUTABLE === undefined && line >= 22;

testIf(canCache, 'Node 20 and an executable have no compile cache')(
  'from the second command on, compiled code is cached, and used unless damaged',
  async () => {
    const { machine } = await machineWithServer((_, response) =>
      reply(response, 200, [], { 'Idempotency-Supported': 'true' }),
    );
    const list = async () => {
      const env = { NODE_DEBUG_NATIVE: 'COMPILE_CACHE' };
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
