import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { NODE } from '../../.config/package/executable.ts';
import manifest from '../../package.json' with { type: 'json' };
import { DIST, EXECUTABLE, freshMachine } from '../helpers/pets.ts';

const executable = EXECUTABLE ?? '';

test('the executable prints its version, and contains the pinned version of Node', async () => {
  const { stdout } = await (await freshMachine()).command(['--version']);
  expect(stdout).toBe(`${manifest.version}\n`);
  expect(readFileSync(executable).includes(`v${NODE.version}`)).toBe(true);
});

test('NODE_OPTIONS, which may be meant for another program, is ignored', async () => {
  const env = { NODE_OPTIONS: '--require /nowhere.js --no-such-option' };
  const { code, stdout } = await (await freshMachine()).command(['use', 'staging', '--debug'], { env });
  expect([code, stdout]).toEqual([0, '']);
});

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
