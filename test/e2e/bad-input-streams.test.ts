import { expect, test } from 'vitest';
import { freshMachine, serve } from '../helpers/pets.ts';
import { expectDecent, lastError } from '../helpers/refusal.ts';
import { shell } from '../helpers/shell.ts';

// Standard streams that are full, closed, or read by nobody.

const seeded = async () => {
  const machine = await freshMachine();
  await serve(machine, ['--ephemeral', '--seed']);
  return machine;
};
const list = 'pets list --profile local --all';

test.each([list, `${list} --json`, `${list} --ndjson`, `${list} --csv`, 'pets --help', 'pets profiles'])(
  'a reader that has gone ends it quietly: %s | true',
  async (command) => {
    const machine = await seeded();
    const ran = await shell(machine, `{ ${command}; echo "code $?" >&2; } | true`);
    expectDecent(ran);
    expect(ran.stderr).toMatch(/^code 0$/m);
    expect(ran.stderr).not.toContain('error');
  },
);

test.each([list, `${list} --json`, `${list} --ndjson`, `${list} --csv`, 'pets --help', 'pets --version'])(
  'a full disk is an error: %s > /dev/full',
  async (command) => {
    const ran = await shell(await seeded(), `${command} > /dev/full`);
    expectDecent(ran);
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain('cannot write the output');
    if (command.endsWith('--json')) expect(lastError(ran).code).toBe('output_error');
  },
);

test('stderr that is full or closed changes no exit code', async () => {
  const machine = await seeded();
  expect((await shell(machine, 'pets list --limit 0 2> /dev/full')).code).toBe(2);
  expect((await shell(machine, 'pets list --limit 0 2>&-')).code).toBe(2);
  expect(await shell(machine, 'pets list --profile local --limit 1 --json 2>&-')).toMatchObject({
    code: 0,
  });
});

test('stdin closed', async () => {
  const machine = await seeded();
  expect(await shell(machine, 'pets list --profile local --limit 1 --json <&-')).toMatchObject({ code: 0 });
  const login = await shell(machine, 'pets login --with-key --base-url https://api.example.com/v1 <&-');
  expectDecent(login);
  expect(login.code).toBe(4);
  expect(login.stderr).toContain('the key is empty');
});
