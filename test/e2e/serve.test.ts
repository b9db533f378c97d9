import { once } from 'node:events';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { freshMachine, type Machine, type Served, serve } from '../helpers/pets.ts';

// What a developer meets who starts the service again and again.

const statusOf = async ({ url }: Served, key: string): Promise<number> =>
  (await fetch(`${url}/pets`, { headers: { Authorization: `Bearer ${key}` } })).status;

const dataOf = ({ home }: Machine): string => join(home, 'store');

describe('the key dev', () => {
  test('is the same at the next start, and in a file that only its owner can read', async () => {
    const machine = await freshMachine();
    const first = await serve(machine, ['--data', dataOf(machine)]);
    await first.end('SIGTERM');
    const second = await serve(machine, ['--data', dataOf(machine)]);
    expect(second.key).toBe(first.key);
    const folder = join(machine.configDirectory, 'stores');
    const [name, ...others] = await readdir(folder);
    expect(others).toEqual([]);
    expect((await stat(join(folder, name ?? ''))).mode & 0o777).toBe(0o600);
    expect(await statusOf(second, second.key)).toBe(200);
  });

  test('once revoked is not handed out again: a store without keys gets a new one', async () => {
    const machine = await freshMachine();
    const args = ['--data', dataOf(machine)];
    const first = await serve(machine, args);
    await first.end('SIGTERM');
    expect((await machine.pets(['keys', 'revoke', 'dev', ...args])).code).toBe(0);
    const second = await serve(machine, args);
    expect(second.key).not.toBe(first.key);
    expect(await statusOf(second, first.key)).toBe(401);
    expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
    await second.end('SIGTERM');
    expect((await serve(machine, args)).key).toBe(second.key);
  });

  test('made anew by hand is not mixed up with the one in the file', async () => {
    const machine = await freshMachine();
    const args = ['--data', dataOf(machine)];
    await (await serve(machine, args)).end('SIGTERM');
    await machine.pets(['keys', 'revoke', 'dev', ...args]);
    await machine.pets(['keys', 'add', 'dev', '--plan', 'free', ...args]);
    const service = await serve(machine, args);
    expect(service.key).toBeUndefined();
  });

  test('is not lost where it could not be saved: the next start makes it', async () => {
    const machine = await freshMachine();
    const args = ['--data', dataOf(machine)];
    await writeFile(join(machine.home, 'file'), '');
    const refused = await machine.pets(['serve', '--port', '0', ...args], {
      env: { PETS_CONFIG_DIR: join(machine.home, 'file', 'x') },
    });
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(join(machine.home, 'file'));
    const service = await serve(machine, args);
    expect(await statusOf(service, service.key)).toBe(200);
  });
});

describe('--seed', () => {
  test('given again leaves the store as it is, and says so', async () => {
    const machine = await freshMachine();
    const args = ['--data', dataOf(machine), '--seed'];
    await (await serve(machine, args)).end('SIGTERM');
    const journal = await readFile(join(dataOf(machine), 'journal.ndjson'), 'utf8');
    const again = await serve(machine, args);
    await again.end('SIGTERM');
    expect(again.stderr()).toContain('was not seeded');
    expect(await readFile(join(dataOf(machine), 'journal.ndjson'), 'utf8')).toBe(journal);
  });

  test('given again with a file of orders alone starts as well', async () => {
    const machine = await freshMachine();
    const file = join(machine.home, 'orders.json');
    await writeFile(file, '{"pets":[],"orders":[{"total":1.50,"id":9007199254740993}]}');
    const args = ['--data', dataOf(machine), '--seed', file];
    await (await serve(machine, args)).end('SIGTERM');
    await serve(machine, args);
    const { stdout } = await machine.pets(['--profile', 'local', 'orders', '--json']);
    expect(stdout).toBe('[{"total":1.50,"id":9007199254740993}]\n');
  });
});

test('a service on every address is announced at one that the command line can use', async () => {
  const machine = await freshMachine();
  const service = await serve(machine, ['--ephemeral', '--host', '0.0.0.0']);
  expect(service.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
  expect((await machine.pets(['--profile', 'local', 'list'])).code).toBe(0);
});

test('--log tells each request on stderr, and none without it', async () => {
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
        request: { method: 'GET', url: '/v1/pets', status: 200, milliseconds: expect.any(Number) },
      });
    }
  }
});

describe('profile local', () => {
  test("is left to another store's service that answers, and taken over from one that does not", async () => {
    const machine = await freshMachine();
    const first = await serve(machine, ['--data', join(machine.home, 'a')]);
    const second = await serve(machine, ['--data', join(machine.home, 'b')]);
    const profile = async () =>
      JSON.parse(await readFile(join(machine.configDirectory, 'local.json'), 'utf8'));
    expect(await profile()).toEqual({ baseUrl: first.url, key: first.key });
    await expect.poll(() => second.stderr()).toContain(first.url);
    await second.end('SIGTERM');
    await first.end('SIGKILL');
    const third = await serve(machine, ['--data', join(machine.home, 'b')]);
    expect(await profile()).toEqual({ baseUrl: third.url, key: third.key });
  });
});

describe('where nobody reads what it says', () => {
  test('the service runs on, and ends with 0', async () => {
    const machine = await freshMachine();
    const service = await serve(machine, ['--data', dataOf(machine)]);
    service.child.stdout?.destroy();
    expect(await statusOf(service, service.key)).toBe(200);
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(service.stderr()).toBe('');
  });

  test.skipIf(process.platform !== 'linux')('a full disk behind stdout ends it with a message', async () => {
    const machine = await freshMachine();
    const { code, stderr } = await machine.pets(['serve', '--ephemeral', '--port', '0', '--no-profile'], {
      stdout: '/dev/full',
    });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: cannot write the output: ENOSPC/);
    expect(stderr).not.toContain('    at ');
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  });
});

test.each([
  [['--host', ''], '--host must be an address'],
  [['--', ''], 'no command behind --'],
])('serve %j is refused', async (args, says) => {
  const { code, stderr } = await (await freshMachine()).pets(['serve', '--ephemeral', ...args]);
  expect(code).toBe(2);
  expect(stderr).toContain(says);
});

test('a log that nobody reads does not fill the memory, nor keep the service from ending', async () => {
  const machine = await freshMachine();
  const child = machine.start(['serve', '--json', '--port', '0', '--ephemeral', '--no-profile', '--log']);
  const [line] = await once(child.stdout?.setEncoding('utf8') as Readable, 'data');
  const { url, key } = JSON.parse(line);
  child.stderr?.pause();
  const path = `/pets?${'x'.repeat(4_000)}`;
  for (let i = 0; i < 20; i++) {
    await Promise.all(
      Array.from({ length: 40 }, () => fetch(url + path, { headers: { Authorization: `Bearer ${key}` } })),
    );
  }
  const ended = once(child, 'exit');
  const asked = performance.now();
  child.kill('SIGTERM');
  expect(await ended).toEqual([0, null]);
  expect(performance.now() - asked).toBeLessThan(5_000);
});
