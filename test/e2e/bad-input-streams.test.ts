import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectNoLeaks, lastError } from '../helpers/failure.ts';
import { type Machine, makeMachine, serve } from '../helpers/pets.ts';

// Standard streams that are full, closed or not read.

let machine: Machine;
let dispose: () => Promise<void>;
beforeAll(async () => {
  ({ machine, dispose } = await makeMachine());
  await serve(machine, ['--ephemeral', '--seed']);
});
afterAll(() => dispose());

const list = 'pets list --profile local --all';

test.each([list, `${list} --json`, `${list} --ndjson`, `${list} --csv`, 'pets --help', 'pets profiles'])(
  'a closed pipe ends the command with 0 and without a message: %s | true',
  async (command) => {
    const ran = await machine.shell(`{ ${command}; echo "code $?" >&2; } | true`);
    expectNoLeaks(ran);
    expect(ran.stderr).toMatch(/^code 0$/m);
    expect(ran.stderr).not.toContain('error');
  },
);

test.each([list, `${list} --json`, `${list} --ndjson`, `${list} --csv`, 'pets --help', 'pets --version'])(
  'a full disk is an error: %s > /dev/full',
  async (command) => {
    const ran = await machine.shell(`${command} > /dev/full`);
    expectNoLeaks(ran);
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain('cannot write the output');
    if (command.endsWith('--json')) expect(lastError(ran).code).toBe('output_error');
  },
);

test.each([
  ['pets list --limit 0 2> /dev/full', 2],
  ['pets list --limit 0 2>&-', 2],
  ['pets list --profile local --limit 1 --json 2>&-', 0],
  ['pets list --profile local --limit 1 --json <&-', 0],
])('full or closed streams do not change the exit code: %s', async (command, code) => {
  expect(await machine.shell(command)).toMatchObject({ code });
});

test('a login whose stdin is closed reports an empty key', async () => {
  const login = await machine.shell('pets login --with-key --base-url https://api.example.com/v1 <&-');
  expectNoLeaks(login);
  expect(login.code).toBe(4);
  expect(login.stderr).toContain('the key is empty');
});
