import { expect, test } from 'vitest';
import { service, shop } from '../helpers/bulk-shop.ts';

// What is told of many faults, and of rows that are none but look like one.

const HEADER = 'name,category,status\n';

test('a person sees the first twenty faults, and how many more there are of which kind', async () => {
  const { url } = await service();
  const { add } = await shop(url, HEADER + 'Rex,1,Lost\n'.repeat(60));
  const { code, stderr } = await add();
  expect(code).toBe(2);
  const lines = stderr.trimEnd().split('\n');
  expect(lines.filter((line) => line.includes('status "Lost" must be'))).toHaveLength(20);
  expect(lines.slice(20)).toEqual([
    '… and 40 more: status must be one of available, pending, sold',
    expect.stringMatching(/^error: .* has 60 faults; nothing was sent$/),
    '  → mend them; each is listed with --json',
  ]);
});

test('of more kinds each is counted, the most frequent first, whatever its rows have in them', async () => {
  const rows = ['Rex,"a",\n', 'Rex,1\n', 'Rex,1,2,3\n', 'Rex,b,\n', 'Rex,c,gone\n'].map((row) =>
    row.repeat(20),
  );
  const { url } = await service();
  const { add } = await shop(url, HEADER + rows.join(''));
  const { stderr } = await add();
  expect(stderr).toContain(
    '… and 80 more: 40 × the header has 3 columns, and this row more or less; ' +
      '20 × category must be a whole number; ' +
      '20 × category must be a whole number, and status must be one of available, pending, sold\n',
  );
});

test('the five most frequent kinds are told, and that there are others', async () => {
  const rows = ['Rex,x,', 'Rex,,', 'Rex,01,', 'Rex,99999999999999999999,', 'Rex,1,gone', 'Rex'];
  const { url } = await service();
  const { add } = await shop(url, HEADER + 'Rex,x,\n'.repeat(20) + `${rows.join('\n')}\n`.repeat(2));
  const { stderr } = await add();
  const [told = ''] = /… and 12 more: .*/.exec(stderr) ?? [];
  expect(told.match(/2 × /g)).toHaveLength(5);
  expect(told).toMatch(/; and others$/);
});

test('twenty faults are all listed, and no others are told of', async () => {
  const { url } = await service();
  const { add } = await shop(url, HEADER + 'Rex,x,\n'.repeat(20));
  const { stderr } = await add();
  expect(stderr.match(/line \d+: category "x" must be a whole number\n/g)).toHaveLength(20);
  expect(stderr).not.toContain('more');
});

test('a program is told each fault on a line of its own', async () => {
  const { url } = await service();
  const { add, file } = await shop(url, HEADER + 'Rex,x,\n'.repeat(60));
  const { stderr } = await add(['--json']);
  const events = stderr
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const message = 'category "x" must be a whole number';
  expect(events.slice(0, -1)).toEqual(
    Array.from({ length: 60 }, (_, i) => ({ fault: { source: file, line: i + 2, message } })),
  );
  expect(events.at(-1).error).toMatchObject({ code: 'usage', hint: 'mend the lines that are named above' });
});

test('rows whose name is empty or blank are told by their lines, and added', async () => {
  const { url, names } = await service();
  const { add } = await shop(url, 'name,category\nRex,1\n,1\n" \u00a0\u2800",2\n');
  const notice = 'note: 2 rows have an empty name: lines 3, 4\n';
  const dry = await add(['--dry-run']);
  expect(dry).toMatchObject({ code: 0, stderr: expect.stringContaining(notice) });
  expect(names()).toEqual([]);
  const { code, stderr } = await add();
  expect([code, names()]).toEqual([0, ['Rex', '', ' \u00a0\u2800']]);
  expect(stderr.startsWith(notice)).toBe(true);
});

test.each([
  [1, 'a row has an empty name: line 2'],
  [10, '10 rows have an empty name: lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11'],
  [12, '12 rows have an empty name: lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more'],
])('%i empty names', async (count, notice) => {
  const { url } = await service();
  const { add } = await shop(url, `name,category\n${',1\n'.repeat(count)}Rex,1\n`);
  const { stderr } = await add(['--dry-run', '--json']);
  expect(JSON.parse(stderr.split('\n')[0] ?? '')).toEqual({ notice });
});
