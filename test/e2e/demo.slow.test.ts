import { spawnSync } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { repository } from '../helpers/documents.ts';
import { freshMachine } from '../helpers/pets.ts';

test('npm run demo lists, adds and shows animals on a new machine, and leaves nothing there', async () => {
  const machine = await freshMachine();
  // Leave out the build, because the other tests use its result.
  const [build, ...rest] = manifest.scripts.demo.split(' && ');
  expect(build).toBe('npm run build');
  const bin = join(repository, 'node_modules', '.bin');
  const env = { ...machine.env, PATH: `${bin}${delimiter}${machine.env['PATH']}`, TMPDIR: machine.home };
  const { status, stdout } = spawnSync(rest.join(' && '), {
    cwd: repository,
    env,
    shell: true,
    encoding: 'utf8',
  });
  expect(status).toBe(0);
  const steps = stdout.split(/^\$ pets /m).slice(1);
  expect(steps.map((step) => step.split('\n')[0])).toEqual([
    'list --all',
    'list --status available --limit 5',
    "add 'Rex the Second' --category 1 --status pending",
    'get 67',
    'orders',
  ]);
  const rows = steps.map((step) => step.trim().split('\n').slice(1));
  expect(rows.slice(0, 2).map(({ length }) => length)).toEqual([66, 5]);
  expect(rows.slice(2, 4)).toEqual(Array(2).fill(['67\tRex the Second\t1\tpending']));
  expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  expect(await readdir(machine.configDirectory).catch(() => [])).toEqual([]);
});
