import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { cliErrorCodes } from '../../src/cli/core/exit-codes.ts';
import type { CommandContext } from '../../src/cli/program/command.ts';
import { readPetFile } from '../../src/cli/rows/read-file.ts';
import { CSV, errorIn, importing, type Step, scenario } from '../helpers/import-commands.ts';
import { freshMachine } from '../helpers/pets.ts';

const HEADER = 'name,category,status\n';
const REFUSED: Step = { code: 2, stdout: '', isOffline: true, createsNothing: true };

describe('if a row has an error, nothing is sent:', () => {
  const jsonErrors = Array.from(
    { length: 60 },
    (_, i) =>
      `{"fault":{"source":"FILE","line":${i + 2},"message":"category \\"x\\" must be a whole number"}}\n`,
  ).join('');
  const kinds = ['Rex,"a",\n', 'Rex,1\n', 'Rex,1,2,3\n', 'Rex,b,\n', 'Rex,c,gone\n'];
  const six = ['Rex,x,', 'Rex,,', 'Rex,01,', 'Rex,99999999999999999999,', 'Rex,1,gone', 'Rex'];
  test.each<[string, string, Step]>([
    [
      'every error is reported with its line',
      'category,name,status\n1,Rex,\nx,Bella,\n2,Lola,gone\n3\n',
      {
        stderr:
          /line 3: category "x" must be .*\n.*line 4: status "gone" must be .*\n.*line 5: .*\nerror: .*3 errors/,
      },
    ],
    ['one error is enough', 'name,category\nRex,1\nBella,x\n', { stderr: 'line 3: category "x" must be' }],
    [
      'with --json each error is a line of JSON',
      HEADER + 'Rex,x,\n'.repeat(60),
      {
        args: '--json',
        stderr: jsonErrors,
        error: { code: 'usage', exitCode: 2, hint: 'fix the lines above' },
      },
    ],
    [
      'twenty errors are all listed, without a summary',
      HEADER + 'Rex,x,\n'.repeat(20),
      { stderr: /^(.*line \d+: category "x" must be a whole number\n){20}error: /, lacks: 'more' },
    ],
    [
      'the first twenty errors are listed, and how many more there are of which kind',
      HEADER + 'Rex,1,Lost\n'.repeat(60),
      {
        stderr:
          /^(.*status "Lost" must be.*\n){20}… and 40 more errors: 40 × status must be one of available, pending, sold\nerror: 60 errors in .*; nothing was sent\n {2}→ fix these errors; --json lists all of them\n$/,
      },
    ],
    [
      'of more kinds each is counted, the most frequent first, whatever the rows contain',
      HEADER + kinds.map((row) => row.repeat(20)).join(''),
      {
        stderr:
          '… and 80 more errors: 40 × expected 3 columns, found more or fewer; 20 × category must be a whole number; ' +
          '20 × category must be a whole number, and status must be one of available, pending, sold\n',
      },
    ],
    [
      'the five most frequent kinds are listed, and that there are others',
      HEADER + 'Rex,x,\n'.repeat(20) + `${six.join('\n')}\n`.repeat(2),
      { stderr: /… and 12 more errors: (2 × (?!.*2 × .*2 × .*2 × .*2 × .*2 × ).*){5}; and others\n/ },
    ],
  ])('%s', async (_, text, step) => {
    await (await importing({ text })).run({ ...REFUSED, ...step });
  });
});

describe('a file is refused with an explanation if', () => {
  const AS_UTF8 = 'save it as UTF-8; in Excel: Save As → CSV UTF-8 (comma delimited)';
  const ZIP = 'PK\x03\x04\x14\0\x06\0';
  test.each<[string, string, string | Buffer, string[], string?]>([
    ['it is UTF-16', 'a.csv', Buffer.from(CSV, 'utf16le'), ['is not UTF-8 text', 'like UTF-16', AS_UTF8]],
    ['it is Windows-1252', 'a.ndjson', Buffer.from('"\xfc"', 'latin1'), ['like Windows-1252', AS_UTF8]],
    ['it is a workbook', 'a.xlsx', ZIP, ['is a workbook', AS_UTF8]],
    ['it is a workbook with --format csv', 'a', ZIP, [AS_UTF8], 'csv'],
    ['it has no header', 'a.tsv', 'Rex\t1\n', ['missing column name and category; found: Rex, 1']],
    ['it is not in the format of --format', 'a', CSV, ['not a JSON array'], 'json'],
    [
      'a row has control sequences',
      'a.csv',
      'name,category\n\x1b[31mRex\x07,x\x1b\n',
      ['category "x\\x1b" must'],
    ],
  ])('%s', async (_, name, text, words, format) => {
    const { add, file } = await importing({ file: name });
    await writeFile(file, text);
    const { code, stderr } = await add(format ? ['--format', format] : []);
    expect(code).toBe(2);
    for (const each of words) expect(stderr).toContain(each);
    expect(stderr).not.toMatch(/[\x00-\x09\x0b-\x1f]/);
  });

  test('it has more rows than the limit; rows with ids are marked', async () => {
    const { file, service } = await importing();
    const context = {
      stdin: Readable.from([]),
      console: { notice() {}, isTerminal: false, json: false },
      onSignal: () => () => {},
    } as unknown as CommandContext;
    expect((await readPetFile({ from: file }, context, 3)).rows).toHaveLength(3);
    const ids = 'id,name,category\n,Rex,1\n7,Bella,2\n';
    await writeFile(file, ids);
    expect((await readPetFile({ from: file }, context, 3)).rows).toEqual([
      { line: 2, pet: { name: 'Rex', categoryId: 1n } },
      { line: 3, pet: { name: 'Bella', categoryId: 2n }, id: 7n },
    ]);
    await expect(readPetFile({ from: file }, context, 1)).rejects.toMatchObject({
      code: 'usage',
      message: `${file} has more than 1 rows; nothing was sent`,
      hint: 'split the file',
    });
    expect([cliErrorCodes.usage, service.requestCount()]).toEqual([2, 0]);
  });
});

scenario(
  'empty and invisible names are errors of their rows, and nothing is sent',
  { text: 'name,category\nRex,1\n,1\n" \u00a0\u2800",2\n' },
  {
    code: 2,
    sends: '',
    stderr:
      /, line 3: name "" is empty\n.*, line 4: name ".*" is empty\nerror: 2 errors in .*; nothing was sent/,
  },
);

scenario(
  'a file of zero bytes is an error',
  { text: '' },
  { code: 2, sends: '', stderr: / is empty\n {2}→ check the command that created it/ },
  { args: '--json', code: 2, stdout: '', error: { code: 'usage' } },
);

test.each([
  ['a directory', '.', 1, 'cannot read standard input: it is a directory'],
  ['no bytes', '/dev/null', 2, 'standard input is empty'],
])('standard input that is %s is an error', async (_name, path, exitCode, message) => {
  const machine = await freshMachine();
  const env = { PETS_BASE_URL: 'http://127.0.0.1:9/v1', PETS_API_KEY: 'pets_k' };
  const { code, stderr } = await machine.shell(`pets import - < ${path}`, { env });
  expect([code, stderr]).toEqual([exitCode, expect.stringContaining(message)]);
});

test('up to ten fields that are not sent are listed, without those that have no name', async () => {
  const names = Array.from({ length: 12 }, (_, i) => `field${i}`);
  const { run } = await importing({ text: `name,category,,${names}\nRex,1,,${names}\n` });
  await run({ stderr: `does not have them: ${names.slice(0, 10).join(', ')}; no row` });
});

test('if no state directory is writable, the input is still checked, and nothing is sent', async () => {
  const { run, directory } = await importing();
  await writeFile(join(directory, 'blocked'), '');
  const blocked: Step = {
    env: { XDG_STATE_HOME: join(directory, 'blocked') },
    temporaryDirectory: join(directory, 'blocked'),
    isOffline: true,
  };
  await run(
    { ...blocked, args: '--dry-run' },
    { ...blocked, args: '--json', code: 1, stdout: '', error: { code: 'file_error' } },
    { ...blocked, text: 'name,category\nRex,x\n', code: 2, stderr: 'line 2: category "x" must be' },
  );
});

test('a link is the file that it points to', async () => {
  const { add, directory, file } = await importing();
  await add();
  const link = join(directory, 'link.csv');
  await symlink(file, link);
  await writeFile(file, `name,category\nRex,1\n${'Max,4\n'.repeat(9)}`);
  const changed = await add(['--json'], {}, link);
  expect([changed.code, errorIn(changed.stderr).code]).toEqual([1, 'already_imported']);
});

test.each([
  ['animals.csv', 'Animals.CSV'],
  ['animals', 'Animals.CSV'],
  ['Animals.CSV.csv', undefined],
  ['cats.csv', undefined],
])('for a file %s that does not exist the suggestion is %s', async (typed, meant) => {
  const { add, directory } = await importing({ file: 'Animals.CSV' });
  await writeFile(join(directory, 'ANIMALS.TXT'), '');
  const { code, stderr } = await add(['--json'], {}, join(directory, typed));
  expect(code).toBe(1);
  expect(errorIn(stderr)).toMatchObject({ code: 'file_error' });
  expect(errorIn(stderr).hint).toBe(meant && 'did you mean FILE?');
});

test('Ctrl-C while rows are read ends the command, and leaves no files', async () => {
  const { startAdd, stateFiles, service } = await importing({
    text: `name,category\n${'Rex,1\n'.repeat(50_000)}`,
  });
  const running = await startAdd();
  while (running.handlersLeft() === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  running.raise('SIGINT');
  expect(await running.ended).toBe(130);
  expect(running.stderr()).toBe('error: interrupted\n');
  expect([service.requestCount(), await stateFiles()]).toEqual([0, []]);
});
