import { rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect, test, vi } from 'vitest';
import type { CommandContext } from '../../src/cli/program/command.ts';
import { readPetFile } from '../../src/cli/rows/read-file.ts';
import { errorIn, importing, type Step } from '../helpers/import-commands.ts';

const HEADER = 'name,category,status\n';
const REFUSED: Step = { code: 2, stdout: '', isOffline: true, createsNothing: true };

test.each<[string, string, Step]>([
  [
    'every error is reported with its line',
    'category,name,status\n1,Rex,\nx,Bella,\n2,Lola,gone\n3\n',
    {
      stderr:
        /line 3: category "x" is not a number \(pets count --by category shows the categories\)\n.*line 4: status "gone" must be .*\n.*line 5: .*\nerror: .*3 errors/,
    },
  ],
  [
    'equal errors are one message with their lines',
    `${HEADER + 'Rex,cats,\n'.repeat(40)}Rex,1,\nRex,cats,\nRex,7.5,\n`,
    {
      stderr:
        /^FILE, lines 2–41, 43: category "cats" is not a number \(pets count --by category shows the categories\)\nFILE, line 44: category "7.5" must be a whole number, in plain digits\nerror: 42 errors in/,
    },
  ],
  [
    'with --json each error is a line of JSON',
    HEADER + 'Rex,x,\n'.repeat(60),
    {
      args: '--json',
      stderr:
        /^(\{"fault":\{"source":"FILE","line":\d+,"message":"category \\"x\\" is not a number [^"]*"\}\}\n){60}/,
      error: { code: 'usage', hint: 'fix the errors above' },
    },
  ],
  [
    'JSON objects over several lines are one error that shows how to convert them',
    '{\n  "name": "Rex",\n  "categoryId": 1\n}\n',
    {
      stderr:
        'error: FILE has lines that are not complete JSON objects\n  → write each animal on one line, for example with jq: jq -c . in.json > out.ndjson (if the animals are in a field: jq -c .field[])\n',
    },
  ],
  [
    'empty and invisible names are errors of their rows',
    'name,category\nRex,1\n,1\n" \u00a0\u2800",2\n',
    {
      stderr:
        /, line 3: name "" is blank\n.*, line 4: name ".*" is blank\nerror: 2 errors in .*; nothing was sent/,
    },
  ],
  ['the hint for a file in UTF-16 is for Excel', '\0n\0a', { stderr: / UTF-16\n.* in Excel: Save As → CSV/ }],
  ['a file of zero bytes is an error', '', { stderr: / is empty\n {2}→ fill it, or check the command/ }],
])('if a row has an error, nothing is sent: %s', async (_, text, step) => {
  await (await importing({ text })).run({ ...REFUSED, ...step });
});

test('a file is refused with an explanation if it has more rows than the limit; rows with ids are marked', async () => {
  const { file } = await importing({ text: 'id,name,category\n,Rex,1\n7,Bella,2\n' });
  const context = { console: { notice() {} } } as unknown as CommandContext;
  expect((await readPetFile(file, context, 2)).rows).toEqual([
    { line: 2, pet: { name: 'Rex', categoryId: 1n } },
    { line: 3, pet: { name: 'Bella', categoryId: 2n }, id: 7n },
  ]);
  await expect(readPetFile(file, context, 1)).rejects.toMatchObject({
    code: 'usage',
    message: `${file} has more than 1 rows; nothing was sent`,
    hint: 'split the file',
  });
});

test('fields that are not sent are listed, without those that have no name', async () => {
  const names = Array.from({ length: 12 }, (_, i) => `field${i}`);
  const { run } = await importing({ text: `name,category,,${names}\nRex,1,,${names}\n` });
  await run({ stderr: `does not have them: ${names.slice(0, 8).join(', ')} and 4 more\n` });
});

test('rows from the terminal are announced, and a hint about a pipe repeats the pipe', async () => {
  const { add } = await importing();
  const piped = await add([], { stdin: 'id,name,category\n7,Rex,1\n' }, '-');
  expect(piped.stderr).toContain('only the rows without an id: … | pets import - --skip-added; for');
  expect(piped.stderr).not.toContain('type the rows');
  const notice = vi.fn();
  const stdin = Object.assign(Readable.from([Buffer.from('name,category\nRex,1\n')]), { isTTY: true });
  await readPetFile('-', { console: { notice }, stdin } as unknown as CommandContext, 1);
  expect(notice).toHaveBeenCalledWith('type the rows, then Ctrl-D (on Windows, Ctrl-Z and Enter)');
});

test('if the state directory is not writable, the input is still checked, and nothing is sent', async () => {
  const { run, directory } = await importing();
  await writeFile(join(directory, 'blocked'), '');
  const blocked: Step = { env: { XDG_STATE_HOME: join(directory, 'blocked') }, isOffline: true };
  await run(
    { ...blocked, args: '--dry-run' },
    { ...blocked, args: '--json', code: 1, stdout: '', error: { code: 'file_error' } },
    { ...blocked, text: 'name,category\nRex,x\n', code: 2, stderr: 'line 2: category "x" is not a number' },
  );
});

test('a ledger that cannot be read ends the import, because the rows may be in it', async () => {
  const { run, add, directory, service } = await importing();
  await run({});
  const imports = join(directory, 'state', 'pets', 'imports');
  await rename(imports, `${imports}.old`);
  await symlink(imports, imports);
  for (const args of [['--dry-run'], ['--json'], ['--add-again', '--json']]) {
    const { code: exit, stderr } = await add(args);
    expect([exit, stderr]).toEqual([1, expect.stringMatching(/cannot (read|write) .*state/)]);
    expect(stderr).toContain('after sudo, give it back: sudo chown -R');
  }
  expect(service.names()).toHaveLength(3);
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
