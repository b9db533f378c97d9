import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { NODE } from '../../.config/package/executable.ts';
import manifest from '../../package.json' with { type: 'json' };
import { KEY, PET } from '../helpers/client.ts';
import { DIST, EXECUTABLE, freshMachine, type Machine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

const executable = EXECUTABLE ?? '';
const MAX_BYTES = 120_000_000;

async function listAnimals(machine: Machine, env: Record<string, string>) {
  const server = await scriptedServer((_request, response) => reply(response, 200, [PET]));
  const connection = { PETS_BASE_URL: server.url, PETS_API_KEY: KEY };
  return machine.command(['list', '--json'], { env: { ...connection, ...env } });
}

test('the executable has at most 120 MB', () => {
  expect(statSync(executable).size).toBeLessThanOrEqual(MAX_BYTES);
});

test('--version --json shows the pinned version of Node', async () => {
  const { stdout } = await (await freshMachine()).command(['--version', '--json']);
  expect(JSON.parse(stdout)).toMatchObject({
    version: manifest.version,
    node: NODE.version,
  });
});

test.each(['--require /nowhere.js', '--no-such-option', '--max-old-space-size=1'])(
  'NODE_OPTIONS=%s, which may be meant for another program, is ignored',
  async (options) => {
    const ran = await listAnimals(await freshMachine(), { NODE_OPTIONS: options });
    expect([ran.code, JSON.parse(ran.stdout)]).toEqual([0, [PET]]);
  },
);

test('--node-options, which Node would apply, is an unknown option of pets', async () => {
  const { code, stderr } = await (await freshMachine()).command(['--node-options=--version']);
  expect([code, stderr]).toEqual([2, expect.stringContaining('--node-options')]);
});

test('the executable contains the licenses of pets, of the libraries and of Node', () => {
  const content = readFileSync(executable);
  const licenses = [
    readFileSync(join(DIST, '..', 'LICENSE'), 'utf8'),
    readFileSync(join(DIST, 'THIRD-PARTY-LICENSES.txt'), 'utf8'),
    'Copyright Node.js contributors. All rights reserved.',
  ];
  for (const license of licenses) expect(content.includes(license)).toBe(true);
});
