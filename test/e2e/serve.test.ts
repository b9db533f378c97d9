import { execFileSync } from 'node:child_process';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, serve, serveCommand } from '../helpers/pets.ts';

// These tests start `pets serve` again and again, as during development.

const statusOf = async ({ url }: { url: string }, key: string): Promise<number> =>
  (await fetch(`${url}/pets`, { headers: { Authorization: `Bearer ${key}` } })).status;

/** A machine with a store. Each call of `start` starts the service with this store. */
async function machineWithStore() {
  const machine = await freshMachine();
  const store = join(machine.home, 'store');
  const data = ['--data', store];
  const start = (...args: string[]) => serve(machine, [...data, ...args]);
  const startAndStop = async (...args: string[]) => {
    const service = await start(...args);
    await service.end('SIGTERM');
    return service;
  };
  return { machine, store, data, start, startAndStop };
}

test('the first lines name the address of the description of the API', async () => {
  const machine = await freshMachine();
  const program = machine.startProgram(['serve', '--port', '0', '--ephemeral', '--no-profile']);
  await expect.poll(program.stdout).toContain('try:');
  const [, printed = ''] = /API described in (.*)\n/.exec(program.stdout()) ?? [];
  const { openapi } = await serve(machine, ['--ephemeral', '--no-profile']);
  for (const address of [printed, openapi]) {
    expect(await (await fetch(address)).json()).toMatchObject({ openapi: '3.1.0' });
  }
});

describe('the key dev', () => {
  test('is the same after a restart, and stored in a file that only its owner can read', async () => {
    const { machine, start, startAndStop } = await machineWithStore();
    const first = await startAndStop();
    const second = await start();
    expect(second.key).toBe(first.key);
    const folder = join(machine.configDirectory, 'stores');
    const names = await readdir(folder);
    expect(names.map((name) => extname(name)).sort()).toEqual(['.key', '.server']);
    for (const name of names) expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
    expect(await statusOf(second, second.key)).toBe(200);
  });

  test('is replaced by a new one after it was revoked', async () => {
    const { machine, data, start, startAndStop } = await machineWithStore();
    const first = await startAndStop();
    expect((await machine.pets(['keys', 'revoke', 'dev', ...data])).code).toBe(0);
    const second = await start();
    expect(second.key).not.toBe(first.key);
    expect(await statusOf(second, first.key)).toBe(401);
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
    await second.end('SIGTERM');
    expect((await start()).key).toBe(second.key);
  });

  test('is replaced even if the store has other keys, but not with --no-profile', async () => {
    const { machine, data, start, startAndStop } = await machineWithStore();
    await startAndStop();
    await machine.pets(['keys', 'add', 'till', '--plan', 'free', ...data]);
    await machine.pets(['keys', 'revoke', 'dev', ...data]);
    expect((await startAndStop('--no-profile')).key).toBeUndefined();
    const service = await start();
    expect(await statusOf(service, service.key)).toBe(200);
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
  });

  test.each([
    ['dev', 'pro'],
    ['mine', 'free'],
  ])(
    'after a revocation, `pets keys add %s --save` works while the server runs, and after a restart',
    async (name, plan) => {
      const { machine, data, start } = await machineWithStore();
      const service = await start();
      const list = () => machine.pets(['--profile', 'local', 'list']);
      await machine.pets(['keys', 'revoke', 'dev', ...data]);
      await expect.poll(() => statusOf(service, service.key)).toBe(401);
      expect(await list()).toMatchObject({
        code: 4,
        stderr: expect.stringContaining(
          'or create one while it runs, with the same --data: pets keys add <name> --save',
        ),
      });
      const option = plan === 'pro' ? [] : ['--plan', plan];
      const { stdout, stderr } = await machine.pets(['keys', 'add', name, '--save', ...option, ...data]);
      const key = stdout.trim();
      expect(stderr).toContain(
        `saved the key for ${service.url} to profile local. Next: pets --profile local list`,
      );
      await expect.poll(async () => (await list()).code).toBe(0);
      await service.end('SIGTERM');
      expect(await start()).toMatchObject({ key, plan });
    },
  );

  test.skipIf(process.platform !== 'linux')('is printed even if the profile cannot be written', async () => {
    const { machine, data, startAndStop } = await machineWithStore();
    await startAndStop('--no-profile');
    const env = { PETS_CONFIG_DIR: '/proc/pets' };
    // Nothing listens at this address. At the default one, another server could run.
    const args = ['keys', 'add', 'till', '--save', '--base-url', 'http://127.0.0.1:9/v1', ...data];
    const { code, stdout } = await machine.pets(args, { env });
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^pets_/)]);
  });

  test('is not announced if it was created again with `pets keys add`', async () => {
    const { machine, data, start, startAndStop } = await machineWithStore();
    await startAndStop();
    await machine.pets(['keys', 'revoke', 'dev', ...data]);
    await machine.pets(['keys', 'add', 'dev', '--plan', 'free', ...data]);
    expect((await start()).key).toBeUndefined();
  });

  test('is created by the next start if it could not be saved', async () => {
    const { machine, data, start } = await machineWithStore();
    const file = await machine.file('file', '');
    const env = { PETS_CONFIG_DIR: join(file, 'x') };
    const refused = await machine.pets(['serve', '--port', '0', ...data], { env });
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining(file) });
    const service = await start();
    expect(await statusOf(service, service.key)).toBe(200);
  });
});

describe('--seed', () => {
  test('is ignored with a notice if the store has animals', async () => {
    const { store, startAndStop } = await machineWithStore();
    const journal = () => readFile(join(store, 'journal.ndjson'), 'utf8');
    await startAndStop('--seed');
    const before = await journal();
    const again = await startAndStop('--seed');
    expect(again.stderr()).toContain('store is not empty; --seed ignored');
    expect(await journal()).toBe(before);
  });

  test('with a file that has only orders works again', async () => {
    const { machine, start, startAndStop } = await machineWithStore();
    const orders = '[{"total":1.50,"id":9007199254740993}]';
    const file = await machine.file('orders.json', `{"pets":[],"orders":${orders}}`);
    await startAndStop('--seed', file);
    await start('--seed', file);
    const { stdout } = await machine.pets(['--profile', 'local', 'orders', '--json']);
    expect(stdout).toBe(`${orders}\n`);
  });
});

test('a service on all addresses announces a loopback URL', async () => {
  const machine = await freshMachine();
  const service = await serve(machine, ['--ephemeral', '--host', '0.0.0.0']);
  expect(service.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
  expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
});

test('--log prints each request to stderr; without it none is printed', async () => {
  const machine = await freshMachine();
  for (const [args, count] of [
    [['--log'], 1],
    [[], 0],
  ] as const) {
    const service = await serve(machine, ['--ephemeral', ...args]);
    await statusOf(service, service.key);
    await service.end('SIGTERM');
    const requests = service
      .stderr()
      .split('\n')
      .filter((line) => line.startsWith('{"request"'));
    expect(requests).toHaveLength(count);
    for (const line of requests) {
      expect(JSON.parse(line)).toEqual({
        request: {
          time: expect.stringMatching(/^\d{4}-.*Z$/),
          id: expect.stringMatching(/^[0-9a-f]{12}-\d+$/),
          keyName: '(ephemeral)',
          client: '127.0.0.1',
          method: 'GET',
          url: '/v1/pets',
          status: 200,
          milliseconds: expect.any(Number),
        },
      });
    }
  }
});

test('--log contains no secret that a client sends as a request id or in a URL, in any form', async () => {
  const machine = await freshMachine();
  const fixed = 'my-own-key-0123456789';
  const token = 'my-own-token-0123456789';
  const chosen = { PETS_SERVE_KEY: fixed, PETS_SERVE_TOKEN: token };
  for (const env of [{}, chosen]) {
    const program = machine.startProgram(['serve', '--ephemeral', '--log', '--json', '--port', '0'], { env });
    const { url, key = fixed } = JSON.parse(await program.firstLine());
    const headers = { Authorization: `Bearer ${key}`, 'X-Request-Id': key };
    const { status } = await fetch(`${url}/pets?key=${key}&password=hunter2`, { headers });
    expect(status).toBe(200);
    const other = { Authorization: 'Bearer other-secret' };
    for (const secret of [key, token, 'other-secret'])
      await fetch(`${url}/pets?x=${secret.replaceAll('-', '%2d')}`, { headers: other });
    program.raise('SIGTERM');
    await program.ended;
    expect(program.stderr()).toContain('/v1/pets?key=');
    expect(program.stderr()).not.toContain(key);
    expect(program.stderr()).not.toContain('hunter2');
    if (env === chosen) expect(program.stderr()).not.toMatch(/…6789|0123456789|other.{1,3}secret/);
  }
});

test("profile local is not changed while the other store's service responds, and then replaced", async () => {
  const machine = await freshMachine();
  const first = await serveCommand(machine, ['--data', join(machine.home, 'a')]);
  const second = await serve(machine, ['--data', join(machine.home, 'b')]);
  const profile = async () => JSON.parse(await readFile(join(machine.configDirectory, 'local.json'), 'utf8'));
  expect(await profile()).toEqual({ baseUrl: first.url, key: first.key });
  await expect.poll(second.stderr).toContain(first.url);
  await second.end('SIGTERM');
  await first.end('SIGKILL');
  const third = await serve(machine, ['--data', join(machine.home, 'b')]);
  expect(await profile()).toEqual({ baseUrl: third.url, key: third.key });
});

test('a service runs on after the reader of its stdout has closed the pipe, and ends with 0', async () => {
  const machine = await freshMachine();
  const service = await serveCommand(machine, ['--ephemeral']);
  service.child.stdout?.destroy();
  expect(await statusOf(service, service.key)).toBe(200);
  expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
  expect(service.stderr()).toBe('');
});

test.skipIf(process.platform !== 'linux')(
  'a full disk for stdout ends the service with a message',
  async () => {
    const machine = await freshMachine();
    const { code, stderr } = await machine.shell('pets serve --ephemeral --port 0 --no-profile > /dev/full');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: cannot write the output: ENOSPC/);
    expect(stderr).not.toContain('    at ');
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  },
);

test('a service whose log is not read keeps serving, and ends', async () => {
  const machine = await freshMachine();
  const service = await serveCommand(machine, ['--ephemeral', '--no-profile', '--log']);
  service.child.stderr?.pause();
  const path = `${service.url}/pets?${'x'.repeat(4_000)}`;
  const headers = { Authorization: `Bearer ${service.key}` };
  for (let i = 0; i < 20; i++) {
    await Promise.all(Array.from({ length: 40 }, () => fetch(path, { headers })));
  }
  expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
});

test.skipIf(process.platform === 'win32')(
  'a signal ends a start whose seed does not arrive, and nothing is created',
  async () => {
    const machine = await freshMachine();
    const [pipe, store] = [join(machine.home, 'seed.ndjson'), join(machine.home, 'store')];
    execFileSync('mkfifo', [pipe]);
    const program = machine.startProgram(['serve', '--port', '0', '--data', store, '--seed', pipe], {
      sleep: async () => {},
    });
    await expect.poll(program.handlersLeft).toBe(1);
    program.raise('SIGTERM');
    expect([await program.ended, program.stdout(), program.handlersLeft()]).toEqual([0, '', 0]);
    // Let the thread that opens the pipe end.
    await writeFile(pipe, '');
    expect(await readdir(machine.home)).toEqual(['seed.ndjson']);
  },
);
