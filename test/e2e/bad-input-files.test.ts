import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { expectFailure, expectNoLeaks, snapshot } from '../helpers/failure.ts';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';

// Seed files, data directories, addresses and commands with which a service cannot start.

const INT64_MAX = '9223372036854775807';

describe('a seed file with errors is refused with line numbers, and nothing is added', () => {
  const lines = (...rows: string[]) => `${rows.join('\n')}\n`;
  const rex = '{"name":"Rex","categoryId":1}';
  test.each([
    ['a.ndjson', lines(rex, '{"name":"Bella"}'), ['line 2', 'categoryId is required']],
    ['a.ndjson', lines(rex, rex, '{"name":'), ['line 3', 'invalid JSON']],
    ['a.ndjson', lines(rex, '', '7'), ['line 3', 'must be a JSON object']],
    ['a.ndjson', lines(rex, 'null'), ['line 2', 'must be a JSON object']],
    [
      'a.ndjson',
      lines('{"id":1,"name":"A","categoryId":1}', '{"id":1,"name":"B","categoryId":1}'),
      ['line 2', 'id 1', 'line 1'],
    ],
    ['a.ndjson', lines('{"id":0,"name":"A","categoryId":1}'), ['line 1', 'id 0 must be from 1']],
    ['a.ndjson', lines('{"id":-5,"name":"A","categoryId":1}'), ['line 1', 'id -5 must be from 1']],
    ['a.ndjson', lines(`{"id":${INT64_MAX},"name":"A","categoryId":1}`), ['line 1', 'must be from 1']],
    [
      'a.ndjson',
      lines('{"id":9223372036854775808,"name":"A","categoryId":1}'),
      ['line 1', 'id 9223372036854775808 must be'],
    ],
    ['a.ndjson', lines('{"name":"A","categoryId":1.5}'), ['line 1', 'categoryId 1.5 must be a whole number']],
    ['a.ndjson', lines('{"name":"A","categoryId":1e30}'), ['line 1', 'categoryId 1e30 must be a whole']],
    [
      'a.ndjson',
      lines('{"name":5,"categoryId":1}', '{"name":"A","categoryId":1,"status":"lost"}'),
      ['line 1', 'name 5 must be a string', 'line 2', 'status "lost" must be one of'],
    ],
    ['a.jsonl', lines('{"name":"A","categoryId":1}}'), ['line 1', 'invalid JSON']],
    ['a.json', '', ['invalid JSON']],
    ['a.json', '[{"name":"A","categoryId":1}', ['invalid JSON']],
    ['a.json', '{}', ['array of animals']],
    ['a.json', '7', ['array of animals']],
    ['a.json', 'null', ['array of animals']],
    ['a.json', '{"pets":[],"orders":{}}', ['"pets" and "orders"']],
    ['a.json', `[${rex},{"name":"B"}]`, ['animal 2', 'categoryId is required']],
    ['a.json', '['.repeat(5_000), ['nested deeper']],
    ['a.csv', 'name,categoryId\r\nRex,1\r\nBella,\r\n', ['line 3', 'category is required']],
    ['a.csv', 'name,categoryId\r\nRex,1e3\r\n', ['line 2', 'category "1e3" must be a whole number']],
    ['a.csv', 'name,categoryId\r\nRex,1,2\r\n', ['line 2']],
    ['a.csv', 'name,categoryId\r\n"Rex,1\r\n', ['invalid CSV']],
    ['a.csv', 'nom,category\r\nRex,1\r\n', ['line 1', 'missing column name; found: nom, category']],
    ['a.csv', 'id,name,categoryId,status\r\n1,A,1,lost\r\n', ['line 2', 'status "lost" must be one of']],
    ['a.csv', 'id,name,categoryId\r\n1,"two\r\nlines",1\r\n1,B,1\r\n', ['line 4', 'id 1']],
    ['a.txt', rex, ['.json, .ndjson, .jsonl or .csv']],
    ['a', rex, ['.json, .ndjson, .jsonl or .csv']],
  ])('%s %j', async (name, content, contains) => {
    const machine = await freshMachine();
    const path = await machine.file(name, content);
    await expectSeedFailure(machine, path, contains);
  });

  const expectSeedFailure = async (machine: Machine, path: string, contains: string[], exit = 2) => {
    const data = join(machine.home, 'data');
    const args = ['serve', '--port', '0', '--no-profile'];
    await expectFailure(machine, [...args, '--ephemeral', '--seed', path], {
      exit,
      contains: [path, ...contains],
    });
    // The store that the refused command opened is still empty and can be used.
    const ran = await machine.pets([...args, '--data', data, '--seed', path, '--json']);
    expect(ran).toMatchObject({ code: exit, stdout: '' });
    const service = await serve(machine, ['--data', data, '--no-profile']);
    const list = await machine.pets(['list', '--json'], {
      env: { PETS_BASE_URL: service.url, PETS_API_KEY: service.key },
    });
    expect(list.stdout).toBe('[]\n');
    await service.end('SIGTERM');
  };

  test('bytes that are not UTF-8', async () => {
    const machine = await freshMachine();
    const path = await machine.file('latin1.csv', Buffer.from('name,categoryId\nF\xfcrst,1\n', 'latin1'));
    await expectSeedFailure(machine, path, ['UTF-8']);
  });

  test('a missing file, and a directory', async () => {
    const machine = await freshMachine();
    await expectSeedFailure(machine, join(machine.home, 'gone.csv'), ['does not exist'], 1);
    await mkdir(join(machine.home, 'dir.json'));
    await expectSeedFailure(machine, join(machine.home, 'dir.json'), ['directory'], 1);
  });

  test('of many errors the first twenty are printed, and the number of the others', async () => {
    const machine = await freshMachine();
    const path = await machine.file('many.ndjson', '{}\n'.repeat(50));
    await expectSeedFailure(machine, path, [
      'line 20',
      'and 30 more errors: name is required, and categoryId is required',
    ]);
  });
});

describe('a data directory that cannot be used', () => {
  test('a path below a device', async () => {
    const directory = '/dev/null/store';
    const args = ['serve', '--port', '0', '--no-profile', '--data', directory];
    await expectFailure(await freshMachine(), args, { exit: 1, contains: [directory, 'directory'] });
  });

  test.skipIf(process.platform !== 'linux')('a path on a file system that cannot be written', async () => {
    const directory = '/proc/pets/store';
    const args = ['serve', '--port', '0', '--no-profile', '--data', directory];
    await expectFailure(await freshMachine(), args, { exit: 1, contains: [directory] });
  });

  test('a path below a file, or the file itself', async () => {
    const machine = await freshMachine();
    const file = await machine.file('store', 'mine');
    const args = ['serve', '--port', '0', '--no-profile', '--data'];
    await expectFailure(machine, [...args, file], { exit: 1, contains: [file] });
    await expectFailure(machine, [...args, join(file, 'below')], { exit: 1, contains: [file] });
    await expectFailure(machine, ['keys', 'add', 'till', '--plan', 'free', '--data', file], {
      exit: 1,
      contains: [file],
    });
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
    await expectFailure(machine, ['serve', '--port', '0', '--no-profile', '--data', data], {
      exit: 1,
      code: 'store_error',
      contains: [path, `byte ${line}`],
    });
    expect(await readFile(path)).toEqual(journal);
  });

  test('a second service on the same directory: the error shows pid and URL of the first', async () => {
    const machine = await freshMachine();
    const data = join(machine.home, 'data');
    const first = await serve(machine, ['--data', data, '--seed', '--no-profile']);
    await expectFailure(machine, ['serve', '--port', '0', '--data', data], {
      exit: 1,
      code: 'store_error',
      contains: [data, `pid ${first.pid}`, first.url],
    });
    const env = { PETS_BASE_URL: first.url, PETS_API_KEY: first.key };
    expect((await machine.pets(['get', '1'], { env })).code).toBe(0);
  });

  test.each([
    [['keys', 'revoke', 'nobody'], 3, 'no key named "nobody"'],
    [['keys', 'revoke', '../x'], 3, 'no key named'],
    [['keys', 'add', '../x', '--plan', 'free'], 2, 'name must have'],
    [['keys', 'add', '', '--plan', 'free'], 2, 'name must have'],
    [['keys', 'add', 'x', '--plan', 'free', '--per-minute', '1', '--per-day', '1'], 2, 'enterprise'],
  ] as const)('pets %j', async (args, exit, contains) => {
    const machine = await freshMachine();
    const data = join(machine.home, 'data');
    await expectFailure(machine, [...args, '--data', data], { exit, contains: [contains] });
  });

  test.each([
    ['{"half', 'JSON'],
    ['[]', 'must be a JSON object'],
    ['{"name":"till","plan":"free"}', 'sha256 is required; created is required'],
    ['{"name":"till","plan":"free","sha256":1,"created":"now"}', 'sha256 must be 64 hexadecimal digits'],
  ])('a damaged key file (%s) is reported by keys list, and the service starts', async (text, contains) => {
    const machine = await freshMachine();
    const data = join(machine.home, 'data');
    await machine.pets(['keys', 'add', 'till', '--plan', 'free', '--data', data]);
    await writeFile(join(data, 'keys', 'till.json'), text);
    await expectFailure(machine, ['keys', 'list', '--data', data], {
      exit: 1,
      contains: [join(data, 'keys', 'till.json'), contains, 'pets keys revoke till'],
    });
    const { url } = await serve(machine, ['--data', data, '--no-profile']);
    expect((await fetch(new URL('/healthz', url))).status).toBe(200);
  });

  test('a key name that is already used', async () => {
    const machine = await freshMachine();
    const args = ['keys', 'add', 'till', '--plan', 'free', '--data', join(machine.home, 'data')];
    expect((await machine.pets(args)).code).toBe(0);
    await expectFailure(machine, args, { exit: 1, contains: ['till', 'pets keys revoke till'] });
  });
});

describe('an address that is not available', () => {
  test('a port in use', async () => {
    const machine = await freshMachine();
    const holder = createServer();
    await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void holder.close());
    const { port } = holder.address() as { port: number };
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
    await expectFailure(machine, args, { exit: 1, code: 'cannot_listen', contains: [host, contains] });
  });
});

test('an unknown command after --', async () => {
  const machine = await freshMachine();
  const before = await snapshot(machine.home);
  for (const form of [[], ['--json']]) {
    const ran = await machine.pets([...form, 'serve', '--ephemeral', '--', 'no-such-command', 'x']);
    expectNoLeaks(ran);
    expect(ran).toMatchObject({ code: 1, stdout: '' });
    expect(ran.stderr).toContain('cannot run no-such-command: command not found');
  }
  expect(await snapshot(machine.home)).toEqual(before);
});
