import { expect, test } from 'vitest';
import { chooseFormat, listFormats, type OutputOptions } from '../../src/cli/output/format.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';

const choose = (
  options: OutputOptions & { json?: boolean },
  prints: Parameters<typeof chooseFormat>[1]['prints'],
) => chooseFormat(options, { prints, json: options.json === true });

test.each<[OutputOptions & { json?: boolean }, object]>([
  [{}, { format: 'rows' }],
  [{ json: true }, { format: 'json' }],
  [{ ndjson: true }, { format: 'ndjson' }],
  [{ csv: true }, { format: 'csv' }],
  [{ table: true }, { format: 'rows', table: true }],
  [
    { table: true, width: 100 },
    { format: 'rows', table: true },
  ],
  [{ width: 100 }, { format: 'rows', table: true }],
  [{ output: 'a.json' }, { format: 'json' }],
  [{ output: 'a.ndjson' }, { format: 'ndjson' }],
  [{ output: 'a.JSONL' }, { format: 'ndjson' }],
  [{ output: 'dir.json/a.csv' }, { format: 'csv' }],
  [{ output: 'a.tsv' }, { format: 'rows', table: false }],
  [{ output: 'a.txt' }, { format: 'rows', table: true }],
  [
    { output: 'a.txt', width: 100 },
    { format: 'rows', table: true },
  ],
  [{ output: 'a.backup' }, { format: 'rows' }],
  [{ output: 'dir.csv/a' }, { format: 'rows' }],
  [{ output: '.csv' }, { format: 'rows' }],
  [{ output: 'a.json', csv: true }, { format: 'csv' }],
  [{ output: 'a.xlsx', csv: true }, { format: 'csv' }],
])('a list with %o is printed as %o', (options, expected) => {
  expect(choose(options, listFormats)).toEqual(expected);
});

test.each<[OutputOptions & { json?: boolean }, string]>([
  [{ json: true, csv: true }, '--json and --csv cannot be combined'],
  [{ ndjson: true, csv: true, table: true }, '--ndjson and --csv and --table cannot be combined'],
  [{ csv: true, width: 100 }, '--width can only be used with a table'],
  [{ output: 'a.json', width: 100 }, '--width can only be used with a table'],
  [{ output: 'a.tsv', width: 100 }, '--width can only be used with a table'],
  [{ output: 'a.xlsx' }, 'this command cannot write .xlsx files'],
])('a list with %o is refused', (options, message) => {
  expect(() => choose(options, listFormats)).toThrow(expect.objectContaining({ message, code: 'usage' }));
});

test('the extension must be one that the command can write, and the hint lists those', () => {
  expect(() => choose({ output: 'a.csv' }, ['rows', 'json'])).toThrow(
    expect.objectContaining({
      message: 'this command cannot write .csv files',
      hint: 'use .json, .tsv or .txt',
    }),
  );
  expect(() => choose({ output: 'a.tsv' }, ['text', 'json'])).toThrow(
    expect.objectContaining({ hint: 'use .json or .txt' }),
  );
  expect(choose({ output: 'a.txt' }, ['text', 'json'])).toEqual({ format: 'text' });
  expect(choose({ output: '/etc/bash_completion.d/pets' }, ['text'])).toEqual({ format: 'text' });
});

const ANIMALS = [
  { id: 1, name: 'Rex', categoryId: 3, status: 'available' },
  { id: 2, name: 'a name that is longer than the table is wide', categoryId: 12, status: 'sold' },
];

test.each([
  ['--table', 'a name that is longer than the table is wide        12  sold'],
  ['--width=40', 'a name that is…        12  sold'],
  ['--table --width=200', 'a name that is longer than the table is wide        12  sold'],
])('pets list %s prints a table without colours to a pipe', async (options, row) => {
  const { stdout, code } = await runAgainst(respondWith(ANIMALS), ['list', ...options.split(' ')]);
  expect([code, stdout.split('\n')[2]]).toEqual([0, ` 2  ${row}`]);
  expect(stdout).toMatch(/^ID {2}NAME {2,}CATEGORY {2}STATUS\n/);
});

test('--width replaces the width of the terminal', async () => {
  const { stdout } = await runAgainst(respondWith(ANIMALS), ['list', '--width', '60'], { columns: 30 });
  expect(stdout).toContain('a name that is longer than the tab…');
});

test('an order that is a flat object is JSON with --json, also on a terminal', async () => {
  const { stdout } = await runAgainst(respondWith({ placed: 3 }), ['orders', '--json'], { columns: 80 });
  expect(JSON.parse(stdout)).toEqual({ placed: 3 });
});
