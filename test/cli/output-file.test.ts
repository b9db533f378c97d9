import { chmod, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commands as allCommands } from '../../src/cli/main.ts';
import { openOutput } from '../../src/cli/output/output-file.ts';
import { PET } from '../helpers/client.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { freshMachine, serve } from '../helpers/pets.ts';
import { type Handler, reply, replyError } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const OLD = 'the old contents\n';
const ROW = '1\tRex\t3\tavailable\n';

/** Runs a command that writes to `name` in a new directory, which `prepare` can change first. */
async function write(
  name: string,
  {
    args = ['list'],
    handler = respondWith([PET]),
    prepare = async () => {},
  }: {
    args?: string[];
    handler?: Handler;
    prepare?: (path: string) => Promise<unknown>;
  } = {},
) {
  const directory = await temporaryDirectory();
  const path = join(directory, name);
  await prepare(path);
  const ran = await runAgainst(handler, [...args, '--output', path]);
  const text = await readFile(path, 'utf8').catch((error) => error.code);
  return { ...ran, directory, path, text, names: await readdir(directory) };
}

const writeOld = (path: string) => writeFile(path, OLD);

test('a file gets all animals, unless --limit is given', async () => {
  const handler: Handler = (_, response, count) =>
    reply(
      response,
      200,
      [{ ...PET, id: count }],
      count < 3 ? { Link: `</v1/pets?page=${count}>; rel="next"` } : {},
    );
  const { text, server } = await write('animals', { handler });
  expect([text.split('\n').length - 1, server.requests.length]).toEqual([3, 3]);
  const limited = await write('animals', { handler, args: ['list', '--limit', '2'] });
  expect(limited.text.split('\n')).toHaveLength(3);
});

test('nothing is written before a command has succeeded, so that a command that is killed leaves nothing', async () => {
  const directory = await temporaryDirectory();
  const path = join(directory, 'animals');
  await writeOld(path);
  const output = openOutput(path, 0o666);
  output.write('1');
  output.write('2');
  expect([await readdir(directory), await readFile(path, 'utf8')]).toEqual([['animals'], OLD]);
  await output.commit();
  expect([await readdir(directory), await readFile(path, 'utf8')]).toEqual([['animals'], '12']);
});

test.each([0o600, 0o640])('pets keys add creates a file that only the user can read (%o)', async (mode) => {
  const machine = await freshMachine();
  await serve(machine);
  const output = join(machine.home, 'key.json');
  if (mode !== 0o600) {
    await writeOld(output);
    await chmod(output, mode);
  }
  const { code } = await machine.pets(['keys', 'add', 'till', '--plan', 'free', '--output', output]);
  expect([code, (await stat(output)).mode & 0o777]).toEqual([0, mode]);
});

test('a symbolic link, and a link to it, are followed and kept', async () => {
  const prepare = async (file: string) => {
    await mkdir(join(file, '../sub'));
    await symlink('sub/target', join(file, '../second'));
    await writeOld(join(file, '../sub/target'));
    await symlink('second', file);
  };
  const { text, path, directory } = await write('animals', { prepare });
  expect([text, await readlink(path), await readdir(join(directory, 'sub'))]).toEqual([
    ROW,
    'second',
    ['target'],
  ]);
  expect((await stat(join(directory, 'sub/target'))).size).toBe(ROW.length);
});

test.each<[why: string, name: string, prepare: (path: string) => Promise<unknown>, message: string]>([
  ['it is a directory', 'animals', (path) => mkdir(path), 'it must be a regular file'],
  ['it is a link to nothing', 'animals', (path) => symlink('target', path), 'it must be a regular file'],
  ['it is a link to itself', 'animals', (path) => symlink('animals', path), 'too many symbolic links'],
  ['its directory does not exist', 'no/animals', async () => {}, 'its directory does not exist'],
])('nothing is sent if the file cannot be written because %s', async (_why, name, prepare, message) => {
  const { code, stderr, server } = await write(name, { args: ['list'], prepare });
  expect([code, server.requests]).toEqual([1, []]);
  expect(stderr).toContain(message);
});

const secondPageFails: Handler = (_, response, count) => {
  if (count === 1) reply(response, 200, [PET], { Link: '</v1/pets?page=2>; rel="next"' });
  else replyError(response, 500);
};

const secondIsMissing: Handler = (request, response) =>
  request.url?.endsWith('/1') ? reply(response, 200, PET) : replyError(response, 404, 'not_found');

test.each<[string, Handler, code: number]>([
  ['list --all --no-retry --ndjson', secondPageFails, 7],
  ['list --all --no-retry --json', secondPageFails, 7],
  ['get 1 2', secondIsMissing, 3],
])('%s: a failed command leaves the old file, and creates none', async (line, handler, code) => {
  const args = line.split(' ');
  const old = await write('animals', { args, handler, prepare: writeOld });
  expect(old).toMatchObject({ code, text: OLD, names: ['animals'] });
  expect(await write('animals', { args, handler })).toMatchObject({ code, names: [] });
});

/** The full names of the commands that print data, except `pets add`. */
const namesThatPrint = (commands: typeof allCommands, prefix = ''): string[] =>
  commands.flatMap((entry) => {
    if ('commands' in entry) return namesThatPrint(entry.commands, `${entry.name} `);
    return entry.prints && entry.outputOptions?.length !== 0 ? [`${prefix}${entry.name}`] : [];
  });

test('every other command that prints data accepts --output', async () => {
  const machine = await freshMachine();
  const store = join(machine.home, 'store');
  const service = await serve(machine, ['--data', store, '--seed']);
  const rows = await machine.file('rows.csv', 'name,category\nRex,1\n');
  const output = join(machine.home, 'output');
  const commands: [args: string[], text: RegExp][] = [
    [['list', '--limit', '1'], /^1\tRex\t/],
    [['find', 'rex'], /^1\tRex\t/],
    [['count'], /^available\t\d+\n/],
    [['get', '1'], /^1\tRex\t/],
    [['orders'], /\t/],
    [['import', rows], /^2\tadded\t\d+\tRex\t\n$/],
    [['profiles'], /^local\t/],
    [['keys', 'add', 'till', '--plan', 'free', '--data', store], /^pets_\S+\n$/],
    [['keys', 'list', '--data', store], /^till\tfree\t/m],
    [['store', 'check', store], /animals +\d+\n/],
    [['completion', 'bash'], /^# Tab completion/],
    [['store', 'copy', store, join(machine.home, 'copy')], /animals +\d+\n/],
  ];
  const lines = commands.map(([args]) => args.join(' '));
  // pets store migrate needs a database: test/cli/database-commands.postgres.test.ts.
  expect(namesThatPrint(allCommands).filter((name) => !lines.some((line) => line.startsWith(name)))).toEqual([
    'store migrate',
  ]);
  for (const [args, text] of commands) {
    if (args[1] === 'copy') await service.end('SIGTERM');
    const ran = await machine.pets([...args, '--profile', 'local', '--output', output]);
    expect([args, ran.code, ran.stdout]).toEqual([args, 0, '']);
    expect(await readFile(output, 'utf8'), args.join(' ')).toMatch(text);
  }
});

test.each<[string, number, number, RegExp]>([
  ['is written after rejections', 400, 8, /^(\d+\tadded\t\d+\tRex\t\n){10}(\d+\tfailed\t\tBad\t.*\n){9}$/],
  ['keeps its old contents if an error ended the run', 401, 4, /^the old contents\n$/],
])('the file of import %s', async (_name, status, exitCode, text) => {
  const machine = await freshMachine();
  const rows = await machine.file('rows.csv', `name,category\n${'Rex,1\n'.repeat(10)}${'Bad,1\n'.repeat(9)}`);
  let creations = 0;
  const handler: Handler = (request, response) => {
    if (request.method === 'GET') reply(response, 200, []);
    else if (creations++ < 10) reply(response, 201, { ...PET, id: creations });
    else replyError(response, status);
  };
  const ran = await write('animals', { args: ['import', rows], handler, prepare: writeOld });
  expect([ran.code, ran.stdout, ran.text]).toEqual([exitCode, '', expect.stringMatching(text)]);
});

test('import refuses to replace its own input', async () => {
  const machine = await freshMachine();
  const rows = await machine.file('rows.json', '[]');
  await symlink('rows.json', join(machine.home, 'link.json'));
  const env = { PETS_BASE_URL: 'http://127.0.0.1:9/v1', PETS_API_KEY: 'key' };
  for (const output of [rows, join(machine.home, 'link.json')]) {
    const { code, stderr } = await machine.pets(['import', rows, '--output', output], { env });
    expect([code, stderr]).toEqual([2, expect.stringContaining('--output would replace')]);
  }
  const { stderr } = await machine.shell('pets import - --output link.json < rows.json', { env });
  expect(stderr).toContain('--output would replace standard input');
  expect(await readFile(rows, 'utf8')).toBe('[]');
});
