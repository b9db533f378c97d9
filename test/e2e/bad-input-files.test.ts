import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { expectFailure } from '../helpers/failure.ts';
import { listAllPets } from '../helpers/list-all-pets.ts';
import { listenOnLoopback } from '../helpers/listen.ts';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';

// A service cannot start with these seed files, data directories, addresses and commands.

describe('a seed file with errors is refused, and nothing is added', () => {
  // test/cli/seed-file.test.ts has the errors of each format.
  const expectSeedFailure = async (machine: Machine, path: string, contains: string[], exit = 2) => {
    const data = join(machine.home, `store for ${basename(path)}`);
    const args = ['serve', '--port', '0', '--no-profile'];
    const seed = ['--seed', path];
    await expectFailure(machine, [...args, '--ephemeral', ...seed], { exit, contains: [path] });
    const ran = await machine.pets([...args, '--data', data, ...seed]);
    expect(ran).toMatchObject({ code: exit, stdout: '' });
    for (const words of contains) expect(ran.stderr).toContain(words);
    await expect(readdir(data)).rejects.toThrow('ENOENT');
    const service = await serve(machine, ['--data', data, '--no-profile']);
    expect(await listAllPets(service)).toEqual([]);
    await service.end('SIGTERM');
  };

  test.each([
    ['a.ndjson', '{"name":"Rex","categoryId":1}\n{"name":"Bella"}\n', ['line 2', 'categoryId is required']],
    ['a.json', '[{"name":"Rex","categoryId":1},{"name":"B"}]', ['line 1', 'categoryId is required']],
    ['b.json', '{"pets":[{"name":"B"}],"orders":[]}', ['animal 1', 'categoryId is required']],
    ['a.csv', 'name,categoryId\r\nRex,1\r\nBella,\r\n', ['line 3', 'category is required']],
    ['a.txt', 'Rex,1', ['line 1', 'missing column name and category']],
    [
      'many.ndjson',
      '{}\n'.repeat(50),
      ['line 20', 'and 30 more errors: 30 × name is required, and categoryId'],
    ],
  ])('%s', async (name, content, contains) => {
    const machine = await freshMachine();
    await expectSeedFailure(machine, await machine.file(name, content), contains);
  });

  test('a missing file, and a directory', async () => {
    const machine = await freshMachine();
    await expectSeedFailure(machine, join(machine.home, 'gone.csv'), ['does not exist'], 1);
    await mkdir(join(machine.home, 'dir.json'));
    await expectSeedFailure(machine, join(machine.home, 'dir.json'), ['directory'], 1);
  });
});

describe('a data directory that cannot be used', () => {
  async function machineWithStore() {
    const machine = await freshMachine();
    const data = join(machine.home, 'data');
    await (await serve(machine, ['--data', data, '--no-profile'])).end('SIGTERM');
    await machine.pets(['keys', 'revoke', 'dev', '--data', data]);
    return { machine, data };
  }

  const serveAt = (directory: string) => ['serve', '--port', '0', '--no-profile', '--data', directory];

  test.each([
    ['below a device', '/dev/null/store'],
    ...(process.platform === 'linux'
      ? [['on a file system that cannot be written', '/proc/pets/store']]
      : []),
  ])('a path %s', async (_name, directory) => {
    await expectFailure(await freshMachine(), serveAt(directory), { exit: 1, contains: [directory] });
  });

  test('a file, and a path below it', async () => {
    const machine = await freshMachine();
    const file = await machine.file('store', 'mine');
    const keysAdd = ['keys', 'add', 'till', '--plan', 'free', '--data', file];
    for (const args of [serveAt(file), serveAt(join(file, 'below')), keysAdd]) {
      await expectFailure(machine, args, { exit: 1, contains: [file] });
    }
  });

  test('a journal that is damaged in the middle: the error shows the byte, and the file is not changed', async () => {
    const machine = await freshMachine();
    const data = join(machine.home, 'data');
    const service = await serve(machine, ['--seed', '--data', data, '--no-profile']);
    const env = { PETS_BASE_URL: service.url, PETS_API_KEY: service.key };
    for (const name of ['Ada', 'Bob']) await machine.pets(['add', name, '--category', '1'], { env });
    await service.end('SIGTERM');
    const path = join(data, 'journal.ndjson');
    const journal = await readFile(path);
    const at = journal.indexOf('Ada');
    journal.write('Eve', at);
    await writeFile(path, journal);
    const line = journal.lastIndexOf('\n', at) + 1;
    const damaged = { exit: 1, code: 'store_error', contains: [path, `byte ${line}`] };
    await expectFailure(machine, serveAt(data), damaged);
    expect(await readFile(path)).toEqual(journal);
  });

  test('a second service on the same directory: the error shows pid and URL of the first', async () => {
    const machine = await freshMachine();
    const data = join(machine.home, 'data');
    const first = await serve(machine, ['--data', data, '--seed', '--no-profile']);
    const contains = [data, `pid ${first.pid}`, first.url];
    await expectFailure(machine, serveAt(data), { exit: 1, code: 'store_error', contains });
    expect(await listAllPets(first)).not.toEqual([]);
  });

  test.each([
    ['revoke nobody', 3, 'no key named "nobody"'],
    ['revoke ../x', 3, 'no key named'],
    ['add ../x --plan free', 2, 'name must have'],
    ['add  --plan free', 2, 'name must have'],
    ['add x --plan free --per-minute 1 --per-day 1', 2, 'enterprise'],
  ])('pets keys %s', async (line, exit, contains) => {
    const { machine, data } = await machineWithStore();
    const args = ['keys', ...line.split(' '), '--data', data];
    await expectFailure(machine, args, { exit, contains: [contains] });
  });

  test.each([
    ['{"half', 'JSON'],
    ['[]', 'must be a JSON object'],
    ['{"name":"till","plan":"free"}', 'sha256 is required; created is required'],
    ['{"name":"till","plan":"free","sha256":1,"created":"now"}', 'sha256 must be 64 hexadecimal digits'],
  ])('a damaged key file (%s) is reported by keys list, and the service starts', async (text, contains) => {
    const { machine, data } = await machineWithStore();
    await machine.pets(['keys', 'add', 'till', '--plan', 'free', '--data', data]);
    await writeFile(join(data, 'keys', 'till.json'), text);
    await expectFailure(machine, ['keys', 'list', '--data', data], {
      exit: 1,
      contains: [join(data, 'keys', 'till.json'), contains, 'revoke the key, then create it again'],
    });
    const { url } = await serve(machine, ['--data', data, '--no-profile']);
    expect((await fetch(new URL('/healthz', url))).status).toBe(200);
  });

  test('a key name that is already used', async () => {
    const { machine, data } = await machineWithStore();
    const args = ['keys', 'add', 'till', '--plan', 'free', '--data', data];
    expect((await machine.pets(args)).code).toBe(0);
    await expectFailure(machine, args, { exit: 1, contains: ['till', 'revoke that key first'] });
  });
});

describe('an address that is not available', () => {
  test('a port in use', async () => {
    const machine = await freshMachine();
    const port = await listenOnLoopback(createServer());
    await expectFailure(machine, ['serve', '--ephemeral', '--port', String(port)], {
      exit: 1,
      code: 'cannot_listen',
      contains: [`127.0.0.1:${port}`, 'in use', '--port 0'],
    });
  });

  test.each([
    ['no-such-host.invalid', 'host'],
    ['192.0.2.1', 'does not have this address'],
    ['999.1.1.1', ''],
  ])('--host %s', async (host, contains) => {
    const machine = await freshMachine();
    const args = ['serve', '--ephemeral', '--port', '0', '--host', host];
    await expectFailure(machine, args, {
      exit: 1,
      code: 'cannot_listen',
      contains: [host, contains, 'omit --host'],
    });
  });
});
