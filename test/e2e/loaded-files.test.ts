import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { KEY, PET } from '../helpers/client.ts';
import { EXECUTABLE, freshMachine } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { testIf } from '../helpers/skip.ts';

// Appends the files that a process has loaded to a list when the process exits.
const REPORT = `
process.on('exit', () => require('node:fs').appendFileSync(process.env.LOADED, Object.keys(require.cache).join('\\n') + '\\n'));
`;

testIf(EXECUTABLE === undefined, 'an executable ignores NODE_OPTIONS').each([
  ['list', false, 0],
  ['serve --ephemeral --quiet -- node --version', false, 0],
  ['keys list', false, 1],
  ['keys list --data postgres://pets@127.0.0.1:9/pets', true, 1],
])('pets %s loads the driver of the database: %s', async (line, expected, code) => {
  const machine = await freshMachine();
  const server = await scriptedServer((_request, response) => reply(response, 200, [PET]));
  const loaded = await machine.file('loaded.txt', '');
  const ran = await machine.command(line.split(' '), {
    env: {
      NODE_OPTIONS: `--require ${await machine.file('report.cjs', REPORT)}`,
      LOADED: loaded,
      PETS_BASE_URL: server.url,
      PETS_API_KEY: KEY,
      // The build must ignore this variable, with which pg looks for a driver that is not part of the package.
      NODE_PG_FORCE_NATIVE: '1',
    },
  });
  expect(ran).toMatchObject({ code });
  const files = (await readFile(loaded, 'utf8')).split('\n');
  expect(files).toContainEqual(expect.stringMatching(/dist.pets\.js$/));
  expect(files.some((file) => file.includes(join('chunks', 'postgres')))).toBe(expected);
});
