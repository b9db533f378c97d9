import { describe, expect, test } from 'vitest';
import { readRows } from '../../src/cli/rows/read-rows.ts';
import { inShort, readAll, rowsOf } from '../helpers/rows.ts';

const MIB = 1_048_576;

describe('a row may have at most 1 MiB', () => {
  const tooLong = expect.stringContaining('longer than 1 MiB');
  // Format, text before the row, start and end of the row, text after it.
  const shapes = [
    ['csv', 'name,category\n', '"', '",1\n', '\nRex,1\n'],
    ['ndjson', '\n', '{"name":"', '"}', '\n{}\n'],
    ['json', '[\n', '{"name":"', '"}', ',\n{}]'],
  ] as const;
  test.each(shapes)(
    '%s: a longer row is an error on its first line, and the last row read',
    async (...shape) => {
      const [format, before, open, close, after] = shape;
      for (const letter of ['x', '🐈']) {
        const room = MIB - Buffer.byteLength(open + close);
        const fill =
          letter.repeat(room / Buffer.byteLength(letter)) + 'x'.repeat(room % Buffer.byteLength(letter));
        const just = await rowsOf(format, before + open + fill + close + after);
        expect(just.map((row) => 'error' in row)).toEqual([false, false]);
        const text = `${before}${open}x${fill}${close}${after}`;
        expect(inShort(await rowsOf(format, text))).toEqual([[2, tooLong]]);
        const cut = Buffer.from(text);
        const at = [cut.subarray(0, 700_000), cut.subarray(700_000, MIB + 9), cut.subarray(MIB + 9)];
        expect(inShort(await rowsOf(format, ...at))).toEqual([[2, tooLong]]);
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
  ] as const)('%s: reading stops if %j is followed by endless %j', async (...of) => {
    const [format, begin, more, line] = of;
    let pieces = 0;
    async function* endless() {
      yield Buffer.from(begin);
      for (const piece = Buffer.from(more.repeat(10_000)); ; pieces++) yield piece;
    }
    const rows = await readAll(endless(), format);
    expect(inShort(rows)).toEqual([[line, tooLong]]);
    expect(pieces * 10_000).toBeLessThan(4 * MIB);
  });
});

test.each(['\n', '\r\n'])(
  'blank lines, each of them %j, do not count towards the length of a CSV row',
  async (end) => {
    const text = `name,category${end}${end.repeat(MIB)}Rex,1${end}"${'x'.repeat(MIB / 2)}",1${end}`;
    const [first, second] = inShort(await rowsOf('csv', text));
    expect(first).toEqual([MIB + 2, { name: 'Rex', categoryId: 1n }]);
    expect(second).toEqual([MIB + 3, expect.objectContaining({ categoryId: 1n })]);
  },
);

test.each([
  ['csv', 'name,category\n', 'Rex,1\n'],
  ['ndjson', '', '{}\n'],
  ['json', '[', '{},'],
] as const)(
  'rows of endless %s are streamed, and the source is closed when the reader stops',
  async (...of) => {
    const [format, begin, row] = of;
    let pieces = 0;
    let isClosed = false;
    async function* endless() {
      try {
        yield Buffer.from(begin);
        for (const piece = Buffer.from(row.repeat(10)); ; pieces++) yield piece;
      } finally {
        isClosed = true;
      }
    }
    let count = 0;
    for await (const _ of readRows(endless(), format)) if (++count === 1000) break;
    expect(pieces).toBeLessThan(110);
    expect(isClosed).toBe(true);
  },
);
