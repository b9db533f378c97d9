import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { closedPort } from '../helpers/listen.ts';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';
import { scriptedServer } from '../helpers/scripted-server.ts';

/** A machine with two stores, `one` and `my two`, and no profiles. */
async function machineWithStores() {
  const machine = await freshMachine();
  const [one, two] = [join(machine.home, 'one'), join(machine.home, 'my two')];
  const starts = [one, two].map((store) => serve(machine, ['--no-profile', '--data', store]));
  await Promise.all(starts.map(async (start) => (await start).end('SIGTERM')));
  return { machine, one, two };
}

const namesOf = async (machine: Machine, data: string): Promise<string[]> => {
  const { stdout } = await machine.pets(['keys', 'list', '--json', '--data', data]);
  return JSON.parse(stdout).map(({ name }: { name: string }) => name);
};

const localProfile = async ({ configDirectory }: Machine) =>
  JSON.parse(await readFile(join(configDirectory, 'local.json'), 'utf8'));

test.each([
  [['list']],
  [['add', 'till', '--plan', 'free']],
  [['add', 'till', '--save']],
  [['revoke', 'till']],
])('without a store, pets keys %s says so, shows how to create one, and creates nothing', async (command) => {
  const machine = await freshMachine();
  await machine.file('files/x', '');
  const path = (name: string) => join(machine.home, name);
  for (const [args, place, next] of [
    [['--data', path('my store')], path('my store'), `pets serve --data '${path('my store')}'`],
    [['--data', path('files')], path('files'), `pets serve --data ${path('files')}`],
    [[], path('.local/share/pets/store'), 'pets serve; or name another with --data or PETS_DATA'],
  ] as const) {
    const { code, stdout, stderr } = await machine.pets(['keys', ...command, ...args]);
    const error = `error: there is no store in ${place}\n  → create one: ${next}\n`;
    expect([code, stdout, stderr]).toEqual([1, '', error]);
  }
  expect(await readdir(machine.home, { recursive: true })).toEqual(['files', 'files/x']);
});

test('a hint of pets keys repeats --data if it was given', async () => {
  const { machine, two } = await machineWithStores();
  const hint = async (args: readonly string[], env = {}) =>
    (await machine.pets(['keys', 'list', ...args], { env })).stderr;
  expect(await hint(['--data', two])).not.toContain('Create one');
  await machine.pets(['keys', 'revoke', 'dev', '--data', two]);
  expect(await hint(['--data', two])).toContain(`Create one: pets keys add <name> --data '${two}'\n`);
  expect(await hint([], { PETS_DATA: two })).toContain('Create one: pets keys add <name>\n');
});

describe('pets keys list', () => {
  const ban = async (machine: Machine, data: string, until: string) => {
    const { sha256 } = JSON.parse(await readFile(join(data, 'keys', 'dev.json'), 'utf8'));
    await machine.file('one/bans.json', JSON.stringify({ [sha256]: until }));
  };

  test('shows the limits of each key, and its ban until it has passed', async () => {
    const { machine, one } = await machineWithStores();
    const until = new Date(Date.now() + 100_000).toISOString();
    await ban(machine, one, until);
    const [key] = JSON.parse((await machine.pets(['keys', 'list', '--json', '--data', one])).stdout);
    const { created } = key;
    const shown = { name: 'dev', plan: 'pro', perMinute: 300, perDay: 10_000, created, bannedUntil: until };
    expect(key).toEqual(shown);
    const csv = await machine.pets(['keys', 'list', '--csv', '--data', one]);
    expect(csv.stdout.split(/\r?\n/)).toEqual([
      'name,plan,perMinute,perDay,bannedUntil,created',
      `dev,pro,300,10000,${until},${created}`,
      '',
    ]);
    await ban(machine, one, '2020-01-01T00:00:00.000Z');
    const lines = await machine.pets(['keys', 'list', '--data', one]);
    expect(lines.stdout).toMatch(/^dev\tpro\t300\t10000\t\t2\S+Z\n$/);
  });

  test('fits 60 columns, and cuts nothing but names and the day of creation', async () => {
    const { machine, one } = await machineWithStores();
    const add = (...args: string[]) => machine.pets(['keys', 'add', ...args, '--data', one]);
    await add('import', '--plan', 'enterprise');
    await add('the-till-next-to-the-window-of-the-shop', '--plan', 'free');
    await ban(machine, one, '2999-11-20T12:00:00.000Z');
    const options = { columns: 60, env: { NO_COLOR: '1' } };
    const { stdout } = await machine.pets(['keys', 'list', '--data', one], options);
    expect(stdout).toMatch(/^NAME {2,}PLAN {2,}BANNED UNTIL {13}CREATED\n/);
    expect(stdout).toMatch(/^dev .* 2999-11-20 12:00:00 UTC {2}\d{4}-\d\d-\d\d$/m);
    expect(stdout).toMatch(/^the-till.* free /m);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(60);
  });
});

describe('pets keys add --save', () => {
  test('creates and saves nothing if the running server has another store', async () => {
    const { machine, one, two } = await machineWithStores();
    const { url } = await serve(machine, ['--data', one]);
    const before = await localProfile(machine);
    const add = (data: string) => machine.pets(['keys', 'add', 'till', '--save', '--data', data]);
    expect(await add(two)).toEqual({
      code: 1,
      stdout: '',
      stderr:
        `error: the server at ${url} does not say that it uses ${two}; no key was created\n` +
        `  → leave out --save; or name the store of this server with --data, or another server with --base-url\n`,
    });
    expect([await localProfile(machine), await namesOf(machine, two)]).toEqual([before, ['dev']]);
  });

  test.each<[string, number | undefined, string, string?]>([
    ['another JSON', 200, '{"status":"ok"}'],
    ['nothing in time', undefined, '', 'cannot reach URL: no response within a second'],
  ])('creates and saves nothing if the response at the URL is %s', async (_about, status, body, problem) => {
    const { machine, one } = await machineWithStores();
    const server = await scriptedServer((_request, response) => {
      if (status !== undefined) response.writeHead(status).end(body);
    });
    const url = `${new URL(server.url).origin}/shop/v1`;
    const args = ['keys', 'add', 'till', '--save', '--data', one, '--base-url', url];
    const { code, stdout, stderr } = await machine.pets(args);
    const message = problem ?? `the server at URL does not say that it uses ${one}`;
    const expected = `${message.replace('URL', url)}; no key was created`;
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining(expected)]);
    // The server gets no key.
    expect(server.requests.map((each) => [each.url, each.headers.authorization])).toEqual([
      ['/shop/healthz', undefined],
    ]);
    expect(await namesOf(machine, one)).toEqual(['dev']);
    expect(await readdir(machine.configDirectory)).toEqual(['stores']);
  });

  test('saves the key while no server is running, and shows how to start it', async () => {
    const { machine, two } = await machineWithStores();
    const port = await closedPort();
    await machine.saveProfile('local', { baseUrl: `http://127.0.0.1:${port}/v1` });
    const { code, stdout, stderr } = await machine.pets(['keys', 'add', 'till', '--save', '--data', two]);
    const next = `to profile local. Next: pets serve --port ${port} --data '${two}'\n`;
    expect([code, stderr]).toEqual([0, expect.stringContaining(next)]);
    const service = await serve(machine, ['--data', two, '--port', String(port)]);
    expect(service.key).toBe(stdout.trim());
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
  });

  test.runIf(process.platform === 'linux')('prints the key even if it cannot be saved', async () => {
    const { machine, one } = await machineWithStores();
    const env = { PETS_CONFIG_DIR: '/proc/pets' };
    const args = ['keys', 'add', 'till', '--save', '--base-url', 'http://127.0.0.1:9/v1', '--data', one];
    const { code, stdout } = await machine.pets(args, { env });
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^pets_/)]);
  });
});

test('a quota without one of its numbers has that of the plan', async () => {
  const { machine, one } = await machineWithStores();
  const quota = ['--plan', 'enterprise', '--per-day', '5', '--data', one, '--json'];
  const { stdout } = await machine.pets(['keys', 'add', 'till-1', ...quota]);
  expect(JSON.parse(stdout).quota).toEqual({ perMinute: 1_000_000_000, perDay: 5 });
});
