import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { CSV, HONOURED, service, shop } from '../helpers/bulk-shop.ts';
import { runInTerminal } from '../helpers/context.ts';
import { reply } from '../helpers/scripted-server.ts';

const last = (stderr: string) => JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '').error;

test('one fault is enough to send nothing, and leaves no rows behind', async () => {
  const { url, requests } = await service();
  const { add, spools } = await shop(url, 'name,category\nRex,1\nBella,x\n');
  expect(await add()).toMatchObject({ code: 2, stdout: '' });
  expect(requests).toEqual([]);
  expect(await spools()).toEqual([]);
});

test.each([[[]], [['--json']]])('a dry run leaves no rows behind %j', async (args) => {
  const { url } = await service();
  const { add, spools } = await shop(url);
  expect(await add(['--dry-run', ...args])).toMatchObject({ code: 0 });
  expect(await spools()).toEqual([]);
});

test('where nothing can be kept, a check and its faults are told all the same, and nothing is sent', async () => {
  const { url, requests } = await service();
  const { add, directory, file } = await shop(url);
  await writeFile(join(directory, 'blocked'), '');
  const env = { XDG_STATE_HOME: join(directory, 'blocked') };
  expect(await add(['--dry-run'], { env })).toMatchObject({ code: 0 });
  const refused = await add(['--json'], { env });
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(last(refused.stderr)).toMatchObject({ code: 'file_error' });
  await writeFile(file, 'name,category\nRex,x\n');
  expect((await add([], { env })).stderr).toContain('line 2: category "x" must be');
  expect(requests).toEqual([]);
});

test('files of other names and other bytes are jobs of their own; a link is the file that it leads to', async () => {
  const { url, names } = await service();
  const { add, addOther, directory, file } = await shop(url);
  await add();
  await writeFile(join(directory, 'more.csv'), 'name,category\nRex,1\nMax,4\n');
  expect(await addOther('more.csv')).toMatchObject({ code: 0 });
  expect(names()).toEqual(['Rex', 'Bella', 'Lola', 'Rex', 'Max']);
  await symlink(file, join(directory, 'link.csv'));
  await writeFile(file, `${CSV}Max,4\n`);
  const changed = await addOther('link.csv', ['--json']);
  expect(changed.code).toBe(1);
  expect(last(changed.stderr)).toMatchObject({ code: 'file_changed' });
});

const AS_CSV = 'in Excel: Save As → CSV UTF-8 (comma delimited)';

test.each([
  ['animals.txt', CSV, ['cannot tell the format', '--format']],
  ['animals.csv', Buffer.from(CSV, 'utf16le'), ['is not UTF-8 text', 'it looks like UTF-16', AS_CSV]],
  ['animals.csv', Buffer.from('name,category\nF\xfcrst,1\n', 'latin1'), ['looks like Windows-1252', AS_CSV]],
  ['animals.ndjson', Buffer.from('"\xfc"', 'latin1'), ['looks like Windows-1252', 'save it as UTF-8']],
  ['animals.Xlsx', CSV, ['is a workbook', AS_CSV]],
  ['animals.csv', 'PK\x03\x04\x14\0\x06\0', ['is a workbook', AS_CSV]],
  ['animals.csv', 'name,category\n\x1b[31mRex\x07,x\x1b\n', ['category "x\\x1b" must be']],
])('%s is refused in words', async (name, text, words) => {
  const { url } = await service();
  const { add, directory } = await shop(url, '', name);
  await writeFile(join(directory, name), text);
  const { code, stderr } = await add();
  expect(code).toBe(2);
  for (const each of words) expect(stderr).toContain(each);
  expect(stderr).not.toMatch(/[\x00-\x09\x0b-\x1f]/);
});

test.each(['csv', 'ndjson', 'json'])('a workbook is refused as one with --format %s too', async (format) => {
  const { url } = await service();
  const { add } = await shop(url, 'PK\x03\x04\x14\0\x06\0', 'animals');
  const { code, stderr } = await add(['--format', format]);
  expect([code, stderr]).toEqual([2, expect.stringContaining(AS_CSV)]);
});

test.each([
  ['animals.csv', 'Animals.CSV'],
  ['animals', 'Animals.CSV'],
  ['Animals.CSV.csv', undefined],
  ['cats.csv', undefined],
])('a file %s that is not there: what may have been meant is %s', async (typed, meant) => {
  const { url } = await service();
  const { addOther, directory } = await shop(url, CSV, 'Animals.CSV');
  await writeFile(join(directory, 'ANIMALS.TXT'), '');
  const { code, stderr } = await addOther(typed, ['--json']);
  expect(code).toBe(1);
  expect(last(stderr)).toMatchObject({ code: 'file_error' });
  expect(last(stderr).hint).toBe(meant && `did you mean ${join(directory, meant)}?`);
});

test('fields that are not sent are named, those without a name and those behind the tenth are not', async () => {
  const { url } = await service();
  const names = Array.from({ length: 12 }, (_, i) => `field${i}`);
  const { add } = await shop(url, `name,category,,${names}\nRex,1,,${names}\n`);
  const { stderr } = await add();
  expect(stderr).toContain(`no such field: ${names.slice(0, 10).join(', ')}; without`);
});

test('a refused row in a pipe has its message, with tabs and line ends that cannot be taken for others', async () => {
  const { url } = await service((name, response) => {
    if (name === 'Rex')
      reply(response, 422, { code: 'no', message: 'not\tthis\none', status: 422 }, HONOURED);
    return name === 'Rex';
  });
  const { add } = await shop(url);
  const { code, stdout } = await add();
  expect([code, stdout.split('\n')[0]]).toEqual([8, '2\tfailed\t\tRex\tnot\\tthis\\none']);
});

test('Ctrl-C while rows are read ends it, and leaves nothing behind', async () => {
  const { url, requests } = await service();
  const { startAdd, spools } = await shop(url, `name,category\n${'Rex,1\n'.repeat(50_000)}`);
  const running = await startAdd();
  while (running.handlersLeft() === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  running.raise('SIGINT');
  expect(await running.ended).toBe(130);
  expect(running.stderr()).toBe('error: interrupted\n');
  expect([requests, await spools()]).toEqual([[], []]);
});

test.each([['--format', 'csv'], ['--restart']])('%s without --from is refused', async (...args) => {
  const { code, stderr } = await runInTerminal(['add', 'Rex', '--category', '1', ...args]);
  expect([code, stderr]).toEqual([2, expect.stringContaining('belong to --from')]);
});
