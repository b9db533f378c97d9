import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';

/** A machine with two stores, `one` and `my two`, and no profiles. */
async function machineWithStores() {
  const machine = await freshMachine();
  const [one, two] = [join(machine.home, 'one'), join(machine.home, 'my two')];
  const starts = [one, two].map((store) => serve(machine, ['--no-profile', '--data', store]));
  await Promise.all(starts.map(async (start) => (await start).end('SIGTERM')));
  return { machine, one, two };
}

test.each([[['list']], [['add', 'till', '--plan', 'free']], [['revoke', 'till']]])(
  'without a store, pets keys %s says so, shows how to create one, and creates nothing',
  async (command) => {
    const machine = await freshMachine();
    await machine.file('files/x', '');
    const path = (name: string) => join(machine.home, name);
    for (const [args, place, next] of [
      [['--data', path('my store')], path('my store'), `pets serve --data '${path('my store')}'`],
      [['--data', path('files')], path('files'), `pets serve --data ${path('files')}`],
      [[], path('.local/share/pets/store'), 'pets serve'],
    ] as const) {
      const { code, stdout, stderr } = await machine.pets(['keys', ...command, ...args]);
      const error = `error: there is no store in ${place}\n  → create one: ${next}\n`;
      expect([code, stdout, stderr]).toEqual([1, '', error]);
    }
    expect(await readdir(machine.home, { recursive: true })).toEqual(['files', 'files/x']);
  },
);

test('a hint of pets keys names the store of --data or PETS_DATA', async () => {
  const { machine, two } = await machineWithStores();
  const hint = async (args: readonly string[], env = {}) =>
    (await machine.pets(['keys', 'list', ...args], { env })).stderr;
  expect(await hint(['--data', two])).not.toContain('Create one');
  const taken = await machine.pets(['keys', 'add', 'dev', '--data', two]);
  expect(taken.stderr).toContain(`first: pets keys revoke dev --data '${two}'\n`);
  await machine.pets(['keys', 'revoke', 'dev', '--data', two]);
  expect(await hint(['--data', two])).toContain(`Create one: pets keys add laptop --data '${two}'\n`);
  expect(await hint([], { PETS_DATA: two })).toContain(`Create one: pets keys add laptop --data '${two}'\n`);
});

const ban = async (machine: Machine, data: string, until: string) => {
  const { sha256 } = JSON.parse(await readFile(join(data, 'keys', 'dev.json'), 'utf8'));
  await machine.file('one/bans.json', JSON.stringify({ [sha256]: until }));
};

test('pets keys list shows the limits of each key, and its ban until it has passed', async () => {
  const { machine, one } = await machineWithStores();
  const until = new Date(Date.now() + 100_000).toISOString();
  await ban(machine, one, until);
  const [key] = JSON.parse((await machine.pets(['keys', 'list', '--json', '--data', one])).stdout);
  const { created } = key;
  const shown = { name: 'dev', plan: 'pro', perMinute: 300, perDay: 10_000, created, bannedUntil: until };
  expect(key).toEqual(shown);
  const csv = await machine.pets(['keys', 'list', '--csv', '--data', one]);
  expect(csv.stdout.split(/\r?\n/)).toEqual([
    'name,plan,bannedUntil,perMinute,perDay,created',
    `dev,pro,${until},300,10000,${created}`,
    '',
  ]);
  await ban(machine, one, '2020-01-01T00:00:00.000Z');
  const lines = await machine.pets(['keys', 'list', '--data', one]);
  expect(lines.stdout).toMatch(/^dev\tpro\t\t300\t10000\t2\S+Z\n$/);
});

test('a quota without one of its numbers has that of the plan', async () => {
  const { machine, one } = await machineWithStores();
  const quota = ['--plan', 'enterprise', '--per-day', '5', '--data', one, '--json'];
  const { stdout } = await machine.pets(['keys', 'add', 'till-1', ...quota]);
  expect(JSON.parse(stdout).quota).toEqual({ perMinute: 1_000_000_000, perDay: 5 });
});
