import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { CANARY, snapshot } from '../helpers/failure.ts';
import { freshMachine, type Machine } from '../helpers/pets.ts';
import { rawServer } from '../helpers/raw-server.ts';
import { scriptedServer } from '../helpers/scripted-server.ts';

// A service may send the key back anywhere in its response. Logs and files of `pets` must not contain the key.
const echo = `key ${CANARY} ${encodeURIComponent(CANARY)}`;

const commands = [
  ['list'],
  ['list', '--all', '--ndjson'],
  ['add', 'Rex', '--category', '1'],
  ['add', '--from', 'animals.csv'],
  ['get', '1', '2'],
  ['orders'],
  ['profiles', '--check'],
];

/** Checks that the key, plain or encoded, is neither in the output nor in any file except the profile. */
async function expectNoKey(machine: Machine, output: string): Promise<void> {
  const files = Object.entries(await snapshot(machine.home)).filter(([name]) => name !== PROFILE);
  const everything = output + JSON.stringify(files);
  const forms = [CANARY, Buffer.from(CANARY).toString('base64'), encodeURIComponent(CANARY)];
  for (const form of forms) expect(everything).not.toContain(form);
}

const PROFILE = join('.config', 'pets', 'prod.json');

async function runAll(url: string): Promise<void> {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: url, key: CANARY });
  await writeFile(join(machine.home, 'animals.csv'), 'name,category\nRex,1\nBella,2\n');
  for (const command of commands) {
    const args = [...command, '--debug', '--no-retry', '--timeout', '0.3'];
    for (const form of [[], ['--json']]) {
      // No command sees the state of earlier ones, so none waits for a cool-down.
      const env = { XDG_STATE_HOME: join(machine.home, `state-${command}-${form}`) };
      const { stdout, stderr } = await machine.pets([...args, ...form], { env });
      await expectNoKey(machine, stdout + stderr);
      expect(stderr).not.toBe('');
    }
  }
}

// `npm run soak` tries all of them.
const some = [200, 302, 401, 410, 429, 503];
const statuses = process.env['PETS_CANARY'] === 'all' ? [...some, 201, 204, 400, 404, 409, 422, 500] : some;

test.each(statuses)(
  'a service that sends the key back with status %i: no command stores or shows it',
  async (status) => {
    const { url } = await scriptedServer((_, response) => {
      response.writeHead(status, `Sorry ${CANARY}`, {
        'Content-Type': 'application/json',
        [`X-${CANARY}`]: echo,
        Location: `http://elsewhere.invalid/?${echo}`,
        'Retry-After': CANARY,
        Link: `</v1/pets?key=${CANARY}>; rel="next", <https://help.invalid/${CANARY}>; rel="deprecation"`,
        Sunset: echo,
      });
      // Orders are any JSON and printed as received, so they must not contain the key.
      response.end(JSON.stringify(status === 200 ? {} : { code: CANARY, message: echo, status }));
    });
    await runAll(url);
  },
  120_000,
);

test.each(['reset', 'garbage', 'silence'])(
  'a service that responds with %s: no command stores or shows the key',
  async (what) => {
    const { url } = await rawServer((socket) => {
      if (what === 'reset') socket.once('data', () => socket.resetAndDestroy());
      if (what === 'garbage') socket.end(`${echo}\r\n\r\n`);
    });
    await runAll(url);
  },
  120_000,
);
