import { describe, expect, test } from 'vitest';
import { inShort, rowsOf } from '../helpers/rows.ts';

const MIB = 1_048_576;

describe('a row may have at most 1 MiB', () => {
  const tooLong = expect.stringContaining('longer than 1 MiB');
  // The columns are the format, the text before the row, the start and the end of the row, and the text after the row.
  const shapes = [
    ['csv', 'name,category\n', '"', '",1\n', '\nRex,1\n'],
    ['csv', 'name,category\r\n', 'x', ',1\r\n', '\r\nRex,1\r\n'],
    ['ndjson', '\n', '{"name":"', '"}', '\n{}\n'],
    ['json', '[\n', '{"name":"', '"}', ',\n{}]'],
  ] as const;
  test.each(shapes)(
    '%s %j: a longer row is an error on its first line, and the last row read',
    (...shape) => {
      const [format, before, open, close, after] = shape;
      for (const letter of ['x', '🐈']) {
        const room = MIB - Buffer.byteLength(open + close);
        const fill =
          letter.repeat(room / Buffer.byteLength(letter)) + 'x'.repeat(room % Buffer.byteLength(letter));
        const just = rowsOf(format, before + open + fill + close + after);
        expect(just.map((row) => 'error' in row)).toEqual([false, false]);
        const text = `${before}${open}x${fill}${close}${after}`;
        expect(inShort(rowsOf(format, text))).toEqual([[2, tooLong]]);
      }
    },
  );

  test.each([
    ['csv', 'name,category\n"', 'Rex,1\n', 2],
    ['csv', 'name,category\n', ',', 2],
    ['csv', '', 'x', 1],
    ['csv', '', ' ', 1],
    ['ndjson', '\n\n', 'x', 3],
    ['json', '[\n"', 'x', 2],
    ['json', '[\n', '[', 2],
    [undefined, '', ' ', 1],
  ] as const)('%s: reading stops if %j is followed by more than a MiB of %j', (format, begin, more, line) => {
    expect(inShort(rowsOf(format, begin + more.repeat(4 * MIB)))).toEqual([[line, tooLong]]);
  });
});

test('CSV is parsed in parts of a MiB at most, wherever a part ends', () => {
  const row = '"a\r\n""",7\r\n\r\n';
  for (let shift = 0; shift < row.length; shift++) {
    const long = 'y'.repeat(MIB - 100 + shift);
    const rows = inShort(rowsOf('csv', `name,category\n${long},7\n${row.repeat(1_000)}`));
    const expected = Array.from({ length: 1_000 }, (_, i) => [3 + 3 * i, { name: 'a\r\n"', categoryId: 7n }]);
    expect(rows.slice(1)).toEqual(expected);
  }
});

test.each(['\n', '\r\n'])(
  'blank lines, each of them %j, do not count towards the length of a CSV row',
  (end) => {
    const text = `name,category${end}${end.repeat(MIB)}Rex,1${end}"${'x'.repeat(MIB / 2)}",1${end}`;
    const [first, second] = inShort(rowsOf('csv', text));
    expect(first).toEqual([MIB + 2, { name: 'Rex', categoryId: 1n }]);
    expect(second).toEqual([MIB + 3, expect.objectContaining({ categoryId: 1n })]);
  },
);
