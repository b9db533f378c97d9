import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Machine, makeMachine, serve } from '../helpers/pets.ts';

// What scripts rely on does not depend on the environment that they run in.

let machine: Machine;
let dispose: () => Promise<void>;
beforeAll(async () => {
  ({ machine, dispose } = await makeMachine());
  await serve(machine, ['--ephemeral', '--seed']);
});
afterAll(() => dispose());

describe('the bytes on stdout are the same', () => {
  test.each([[[]], [['--json']], [['--ndjson']], [['--csv']]])(
    'in every locale, terminal and time zone: %j',
    async (format) => {
      const args = ['list', '--profile', 'local', '--all', ...format];
      const plain = await machine.command(args);
      expect(plain.stdout).toContain('Fürst Pückler');
      expect(plain.stdout).not.toContain('\u001b');
      const environments: Record<string, string>[] = [
        { LANG: 'C', LC_ALL: 'C' },
        { LANG: 'de_DE.UTF-8' },
        { TERM: 'dumb' },
        { COLUMNS: '20', LINES: '5' },
        { CI: 'true', GITHUB_ACTIONS: 'true' },
        { TZ: 'Pacific/Auckland' },
      ];
      for (const env of environments) expect(await machine.command(args, { env })).toEqual(plain);
    },
  );

  test('with any standard streams', async () => {
    const { stdout } = await machine.pets(['list', '--profile', 'local', '--json']);
    for (const streams of ['', '< /dev/null', '<&-', '| cat', '2> /dev/null', '--no-input']) {
      const ran = await machine.shell(`pets list --profile local --json ${streams}`);
      expect([streams, ran.code, ran.stdout]).toEqual([streams, 0, stdout]);
    }
  });
});
