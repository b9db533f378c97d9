import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';

/** A machine with two stores, `one` and `my two`, and nothing else. */
async function machineWithStores() {
  const machine = await freshMachine();
  const [one, two] = [join(machine.home, 'one'), join(machine.home, 'my two')];
  for (const store of [one, two])
    await (await serve(machine, ['--no-profile', '--data', store])).end('SIGTERM');
  return { machine, one, two };
}

const namesOf = async (machine: Machine, data: string): Promise<string[]> => {
  const { stdout } = await machine.pets(['keys', 'list', '--json', '--data', data]);
  return JSON.parse(stdout).map(({ name }: { name: string }) => name);
};

const localProfile = async ({ configDirectory }: Machine) =>
  JSON.parse(await readFile(join(configDirectory, 'local.json'), 'utf8'));

describe('without a store', () => {
  test.each([
    [['keys', 'list']],
    [['keys', 'add', 'till', '--plan', 'free']],
    [['keys', 'add', 'till', '--save']],
    [['keys', 'revoke', 'till']],
  ])('pets %s says so, shows how to create one, and creates nothing', async (command) => {
    const machine = await freshMachine();
    const [store, standard] = ['my store', '.local/share/pets/store'].map((name) => join(machine.home, name));
    for (const [args, path, next] of [
      [['--data', store ?? ''], store, `pets serve --data '${store}'`],
      [[], standard, 'pets serve'],
    ] as const) {
      const { code, stdout, stderr } = await machine.pets([...command, ...args]);
      expect([code, stdout, stderr]).toEqual([
        1,
        '',
        `error: there is no store in ${path}\n  → create one: ${next}\n`,
      ]);
    }
    expect(await readdir(machine.home)).toEqual([]);
  });

  test('an empty directory is no store either, and stays empty', async () => {
    const machine = await freshMachine();
    await machine.file('store/x', '');
    const store = join(machine.home, 'store');
    const { code, stderr } = await machine.pets(['keys', 'add', 'till', '--plan', 'free', '--data', store]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`there is no store in ${store}\n`)]);
    expect(await readdir(store)).toEqual(['x']);
  });
});

describe('a hint of pets keys', () => {
  test('repeats --data if it was given', async () => {
    const { machine, two } = await machineWithStores();
    const { stderr } = await machine.pets(['keys', 'list', '--data', two]);
    expect(stderr).toBe('');
    await machine.pets(['keys', 'revoke', 'dev', '--data', two]);
    const listed = await machine.pets(['keys', 'list', '--data', two]);
    expect(listed.stderr).toContain(`Create one: pets keys add <name> --plan <plan> --data '${two}'\n`);
    const fromVariable = await machine.pets(['keys', 'list'], { env: { PETS_DATA: two } });
    expect(fromVariable.stderr).toContain('Create one: pets keys add <name> --plan <plan>\n');
  });

  test('never contains a password', async () => {
    const machine = await freshMachine();
    const url = 'postgres://pets:canary@127.0.0.1:9/pets';
    for (const command of ['list', 'revoke x', 'add x --plan free']) {
      const { stdout, stderr } = await machine.pets(['keys', ...command.split(' '), '--data', url]);
      expect(stdout + stderr).not.toContain('canary');
    }
  });
});

describe('pets keys add --save', () => {
  test('saves the key of the store that the running server has', async () => {
    const { machine, one } = await machineWithStores();
    const { url } = await serve(machine, ['--data', one]);
    const { code, stdout, stderr } = await machine.pets(['keys', 'add', 'till', '--save', '--data', one]);
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining(`saved the key for ${url} to profile local. Next: pets --profile local list\n`),
    ]);
    expect(await localProfile(machine)).toEqual({ baseUrl: url, key: stdout.trim() });
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
  });

  test('creates and saves nothing if the server has another store', async () => {
    const { machine, one, two } = await machineWithStores();
    const { url } = await serve(machine, ['--data', one]);
    const before = await localProfile(machine);
    const { code, stdout, stderr } = await machine.pets(['keys', 'add', 'till', '--save', '--data', two]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toBe(
      `error: the server at ${url} has another store than ${two}; no key was created\n` +
        `  → use --data with that server's store, or --base-url with the URL of a server of this store\n`,
    );
    expect(await localProfile(machine)).toEqual(before);
    expect(await namesOf(machine, two)).toEqual(['dev']);
  });

  test.each([
    ['no JSON', 200, '<html>'],
    ['another JSON', 200, '{"status":"ok"}'],
    ['a server that starts', 503, '{"code":"starting","message":"The service is starting","status":503}'],
    ['nothing in time', undefined, ''],
  ])('creates and saves nothing if the response at the URL is %s', async (_about, status, body) => {
    const { machine, one } = await machineWithStores();
    const paths: string[] = [];
    const server = createServer((request, response) => {
      paths.push(`${request.url} ${request.headers.authorization}`);
      if (status !== undefined) response.writeHead(status).end(body);
    }).listen(0, '127.0.0.1');
    onTestFinished(() => server.closeAllConnections());
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/shop/v1`;
    const args = ['keys', 'add', 'till', '--save', '--data', one, '--base-url', url];
    const { code, stdout, stderr } = await machine.pets(args);
    expect([code, stdout, stderr]).toEqual([
      1,
      '',
      expect.stringContaining(`the server at ${url} does not show which store it has; no key was created`),
    ]);
    // The server gets no key.
    expect(paths).toEqual(['/shop/healthz undefined']);
    expect(await namesOf(machine, one)).toEqual(['dev']);
    expect(await readdir(machine.configDirectory)).toEqual(['stores']);
  });

  test('saves the key while no server is running, and shows how to start it', async () => {
    const { machine, two } = await machineWithStores();
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await machine.saveProfile('local', { baseUrl: `http://127.0.0.1:${port}/v1` });
    const { code, stdout, stderr } = await machine.pets(['keys', 'add', 'till', '--save', '--data', two]);
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining(`to profile local. Next: pets serve --data '${two}'\n`),
    ]);
    const service = await serve(machine, ['--data', two, '--port', String(port)]);
    expect(service.key).toBe(stdout.trim());
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
  });
});
