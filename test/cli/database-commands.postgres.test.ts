import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { snapshot } from '../helpers/failure.ts';
import { listenOnLoopback } from '../helpers/listen.ts';
import { freshMachine, type Machine, type RunOptions, serve } from '../helpers/pets.ts';
import { freshDatabase, PASSWORD, sharedCluster, USER_WITH_PASSWORD } from '../helpers/postgres.ts';

const nameOf = (url: string): string => new URL(url).pathname.slice(1);

const eventsOf = (text: string) =>
  text
    .trim()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

const noticesOf = (stderr: string): string[] => eventsOf(stderr).flatMap(({ notice }) => notice ?? []);

/** Starts `pets serve` without --json, and returns what it prints until it is stopped. */
async function linesOfServe(machine: Machine, args: readonly string[], options?: RunOptions) {
  const program = machine.startProgram(['serve', '--port', '0', ...args], options);
  await expect.poll(program.stdout).toContain('try:');
  program.raise('SIGTERM');
  expect(await program.ended).toBe(0);
  return program.stdout();
}

test('pets serve without a saved key of the database creates no key, and prints the command that creates one and saves it', async () => {
  const [machine, url] = [await freshMachine(), await freshDatabase()];
  const lines = await linesOfServe(machine, ['--data', url, '--plan', 'business']);
  expect(lines).toContain(`0 animals in ${url}\n`);
  const [, command = ''] = /create one: pets (.*)\n/.exec(lines) ?? [];
  const [add = '', login] = command.split(' | ');
  expect(add).toBe(`keys add laptop --plan business --data ${url}`);
  expect(login).toMatch(/^pets login --profile local --base-url http:/);
  expect((await machine.pets(['keys', 'list', '--json', '--data', url])).stdout).toBe('[]\n');
  const created = await machine.pets(add.split(' '));
  expect(created.code).toBe(0);
  await machine.saveProfile('local', { baseUrl: 'http://127.0.0.1:9/v1', key: created.stdout.trim() });
  const service = await serve(machine, ['--data', url]);
  expect(service).toMatchObject({ directory: url, plan: 'business', key: created.stdout.trim() });
});

test('pets serve without a saved key of the database gives the command after -- a key that only this server accepts', async () => {
  const [machine, url] = [await freshMachine(), await freshDatabase()];
  const script = `
      fetch(process.env.PETS_BASE_URL + '/pets', { headers: { Authorization: 'Bearer ' + process.env.PETS_API_KEY } })
        .then(({ status }) => console.log(status, process.env.PETS_API_KEY))`;
  const args = ['serve', '--quiet', '--data', url, '--', process.execPath, '-e', script];
  const { code, stdout } = await machine.command(args);
  const [status, key] = stdout.trim().split(' ');
  expect([code, status]).toEqual([0, '200']);
  expect((await machine.pets(['keys', 'list', '--json', '--data', url])).stdout).toBe('[]\n');
  const service = await serve(machine, ['--data', url]);
  const again = await fetch(`${service.url}/pets`, { headers: { Authorization: `Bearer ${key}` } });
  expect(again.status).toBe(401);
});

test('of two servers that seed a database at the same time, one reports that --seed is ignored', async () => {
  const [machine, url] = [await freshMachine(), await freshDatabase()];
  const services = await Promise.all(
    [1, 2].map(() => serve(machine, ['--data', url, '--seed', '--no-profile'])),
  );
  const seeded = services.map(({ stdout }) => eventsOf(stdout())[0]);
  expect(seeded.map((event) => event.seeded).sort()).toEqual([false, true]);
  expect(seeded.map(({ animals }) => animals)).toEqual([66, 66]);
  await Promise.all(services.map(({ end }) => end('SIGTERM')));
  const notices = services.flatMap(({ stderr }) => noticesOf(stderr()));
  expect(notices.filter((text) => text.includes('seed'))).toMatchObject([
    expect.stringContaining('--seed was ignored'),
  ]);
});

test.each<[string, string[], number]>([
  ['0', [], 0],
  ['143 if there is a command', ['--', 'node', '--version'], 143],
])(
  'pets serve stops after a signal while the database does not respond: exit code %s',
  async (_code, command, expected) => {
    const machine = await freshMachine();
    let connections = 0;
    const port = await listenOnLoopback(createServer(() => void connections++));
    const url = `postgres://pets@127.0.0.1:${port}/pets`;
    const program = machine.startProgram(['serve', '--port', '0', '--data', url, ...command]);
    await expect.poll(() => connections).toBe(1);
    program.raise('SIGTERM');
    expect([await program.ended, program.stdout()]).toEqual([expected, '']);
    await expect.poll(program.handlersLeft).toBe(0);
  },
);

test('pets store migrate creates the schema once', async () => {
  const [machine, url] = [await freshMachine(), await freshDatabase()];
  const migrate = async (...args: string[]) =>
    JSON.parse((await machine.pets(['store', 'migrate', '--json', url, ...args])).stdout);
  const { sql } = await migrate('--dry-run');
  expect(sql).toContain('create schema pets');
  expect(await migrate()).toEqual({ directory: url, created: true });
  expect(await migrate()).toEqual({ directory: url, created: false });
  expect(await migrate('--dry-run')).toEqual({ directory: url, sql: '' });
  expect(await machine.pets(['store', 'migrate', url, '--dry-run'])).toEqual({
    code: 0,
    stdout: '',
    stderr: `note: the schema in ${url} is up to date\n`,
  });
});

test('pets store migrate prints SQL that an administrator runs for a user who may not create schemas', async () => {
  const [machine, url] = [await freshMachine(), await freshDatabase()];
  const { sql } = sharedCluster();
  await sql('postgres', `revoke create on database ${nameOf(url)} from public`);
  const refused = await machine.pets(['serve', '--port', '0', '--data', url]);
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining('pets store migrate <url> --dry-run'),
  ]);
  const { code, stdout, stderr } = await machine.pets(['store', 'migrate', url, '--dry-run']);
  expect([code, stderr]).toEqual([0, '']);
  await sql(nameOf(url), stdout);
  await serve(machine, ['--data', url, '--seed']);
});

test('a password in PETS_DATA or PGPASSWORD is used, and never printed or stored', async () => {
  const machine = await freshMachine();
  const cluster = sharedCluster();
  const withUser = (text: string) => text.replace(/\/\/\w+@/, `//${USER_WITH_PASSWORD}@`);
  const place = withUser(await freshDatabase());
  const PETS_DATA = place.replace('@', `:${encodeURIComponent(PASSWORD)}@`);
  expect(cluster.url(nameOf(place), USER_WITH_PASSWORD)).toBe(place);
  const run = async (args: string[], env: Record<string, string> = { PETS_DATA }) => {
    const ran = await machine.pets(['--debug', ...args], { env });
    expect([ran.code, ran.stderr]).toEqual([0, expect.any(String)]);
    return ran.stdout + ran.stderr;
  };
  let output = '';
  for (const flags of [[], ['--json']]) {
    const name = flags.length > 0 ? 'b' : 'a';
    output += await run(['store', 'migrate', '--dry-run', ...flags]);
    output += await run(['store', 'migrate', ...flags]);
    output += await run(['keys', 'add', name, ...flags]);
    output += await run(['keys', 'list', ...flags]);
    output += await run(['keys', 'revoke', name, ...flags]);
    output += await run(['serve', ...flags, '--', 'node', '--version']);
    output += await run(['store', 'check', ...flags]);
    const copy = withUser(await freshDatabase());
    const env = { PGPASSWORD: PASSWORD };
    output += await run(['store', 'copy', place, copy, ...flags], env);
    output += await run(['store', 'copy', copy, join(machine.home, name), ...flags], env);
  }
  output += await linesOfServe(machine, [], { env: { PETS_DATA } });
  const service = await serve(machine, [], { env: { PETS_DATA } });
  expect(service).toMatchObject({ directory: place });
  await service.end('SIGTERM');
  output += service.stdout() + service.stderr();
  expect(output).toContain(place);
  const everything = output + JSON.stringify(await snapshot(machine.home));
  for (const text of ['battery', 'staple']) expect(everything).not.toContain(text);
  const env = { PETS_DATA: place.replace('@', ':battery@') };
  const wrong = await machine.pets(['keys', 'list', '--debug'], { env });
  expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('password authentication failed')]);
  expect(wrong.stderr).not.toContain('battery');
});
