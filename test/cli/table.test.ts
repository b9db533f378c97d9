import { Chalk } from 'chalk';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Console } from '../../src/cli/output/console.ts';
import { type Column, renderRows, renderTable } from '../../src/cli/output/table.ts';
import { fitColumns } from '../../src/cli/output/table-layout.ts';
import { displayWidth } from '../../src/cli/output/width.ts';
import { cases } from '../helpers/cases.ts';
import { graphemes, hostileTexts } from '../helpers/hostile-text.ts';

const terminal = (columns: number, level: 0 | 1 = 0) =>
  ({ isTable: true, columns, colours: new Chalk({ level }) }) as unknown as Console;

const COLUMNS: Column[] = [
  { head: 'ID', align: 'right' },
  { head: 'NAME', flexible: true },
  { head: 'CATEGORY', align: 'right' },
  { head: 'STATUS' },
];

const linesAt = (columns: number, rows: readonly string[][], declared = COLUMNS) =>
  renderRows(terminal(columns), declared, rows).split('\n').slice(0, -1);

const anyWidth = fc.integer({ min: 40, max: 200 });
const anyName = fc.oneof(
  hostileTexts,
  fc.constantFrom('x'.repeat(10_000), `Z${'\u0301'.repeat(500)}`, 'א'.repeat(300)),
);

describe('a table of any text', () => {
  test('has one line per row, fits the terminal, and aligns its columns', () => {
    fc.assert(
      fc.property(fc.array(anyName, { minLength: 1, maxLength: 8 }), anyWidth, (names, columns) => {
        const rows = names.map((name, i) => [`${i + 1}`, name, '3', 'available']);
        const [head = '', ...lines] = linesAt(columns, rows);
        expect(lines).toHaveLength(rows.length);
        const start = displayWidth(head) - 'STATUS'.length;
        for (const [i, line] of lines.entries()) {
          expect(line).toMatch(new RegExp(`^ *${i + 1} {2}.* 3 {2}available$`, 'su'));
          expect(displayWidth(line)).toBe(start + 'available'.length);
          expect(displayWidth(line)).toBeLessThanOrEqual(columns);
        }
        expect(head).toMatch(/^ID {2}NAME +CATEGORY {2}STATUS$/);
      }),
      { numRuns: cases(300) },
    );
  });

  test.each(Object.entries(graphemes))('%s is never cut in half', (_, grapheme) => {
    for (let columns = 28; columns < 60; columns++) {
      const [, line = ''] = linesAt(columns, [['1', grapheme.repeat(20), '3', 'sold']]);
      const cell = line.replace(/^.*?1 {1,2}/, '').replace(/\s+3 +sold$/, '');
      const left = cell.replaceAll(grapheme, '').replaceAll('\u200e', '').trim();
      expect(['', '…']).toContain(left);
    }
  });

  test('encloses Hebrew and Arabic in left-to-right marks without width', () => {
    const [, hebrew, mixed] = linesAt(80, [
      ['1', 'רקס', '3', 'sold'],
      ['2', 'Rex רקס 5', '3', 'sold'],
    ]);
    expect(hebrew).toMatch(/^ 1 {2}\u200eרקס\u200e {6,} +3 {2}sold$/);
    expect(mixed).toContain('\u200eRex רקס 5\u200e');
    expect(linesAt(80, [['1', 'Rex 猫', '3', 'sold']]).join()).not.toContain('\u200e');
  });

  test('keeps cells that look like control characters or replacement patterns', () => {
    const names = ['xxx', 'é\u0001xxx', '$&', '$1é', ' é ', 'é'];
    const lines = linesAt(
      80,
      names.map((name) => ['1', name, '3', 'sold']),
    );
    expect(lines.slice(1).map((line) => line.slice(4).replace(/ +3 {2}sold$/, ''))).toEqual([
      'xxx',
      'é\\x01xxx',
      '$&',
      '$1é',
      ' é',
      'é',
    ]);
  });
});

describe('on a narrow terminal', () => {
  test.each([
    [60, [7, 28, 8, 9], 2],
    [58, [7, 28, 8, 9], 2],
    [57, [7, 27, 8, 9], 2],
    [40, [7, 10, 8, 9], 2],
    [38, [7, 8, 8, 9], 2],
    [37, [7, 8, 7, 9], 2],
    [32, [7, 8, 2, 9], 2],
    [31, [7, 7, 2, 9], 2],
    [28, [7, 4, 2, 9], 2],
    [27, [7, 6, 2, 9], 1],
    [25, [7, 4, 2, 9], 1],
    [20, [5, 4, 2, 6], 1],
    [10, [1, 2, 2, 2], 1],
    [7, [1, 2, 2], 1],
    [5, [2, 2], 1],
    [1, [1], 1],
  ])('of %i columns the widths are %j and the gap is %i', (columns, widths, gap) => {
    const extents = [
      { content: 7, head: 2, flexible: false, minWidth: 1 },
      { content: 28, head: 4, flexible: true, minWidth: 1 },
      { content: 2, head: 8, flexible: false, minWidth: 1 },
      { content: 9, head: 6, flexible: false, minWidth: 1 },
    ];
    expect(fitColumns(extents, columns)).toEqual({ widths, gap });
  });

  test('the last columns are dropped if the others would become too narrow', () => {
    const columns: Column[] = ['a', 'b', 'c', 'd'].map((head) => ({ head, minWidth: 8, flexible: true }));
    const long = [['a', 'b', 'c', 'd'].map((each) => each.repeat(20))];
    const { text, shown } = renderTable(terminal(40), columns, long);
    const head = 'a         b         c          d';
    expect([text, shown]).toEqual([`${head}\naaaaaaa…  bbbbbbb…  cccccccc…  dddddddd…\n`, 4]);
    expect(renderTable(terminal(37), columns, long)).toEqual({
      text: 'a            b            c\naaaaaaaaaa…  bbbbbbbbbb…  cccccccccc…\n',
      shown: 3,
    });
  });
});

test('a cell that is cut keeps its colour', () => {
  const columns: Column[] = [
    { head: 'NAME' },
    {
      head: 'STATUS',
      format: (shown, cell) => (cell === 'available' ? `\u001b[32m${shown}\u001b[39m` : shown),
    },
  ];
  expect(renderRows(terminal(10, 1), columns, [['Rex', 'available']])).toBe(
    '\u001b[1mNA…\u001b[22m \u001b[1mSTATUS\u001b[22m\nRex \u001b[32mavail…\u001b[39m\n',
  );
});

test('a long table has all rows in order', () => {
  const rows = Array.from({ length: 130_000 }, (_, i) => [`${i}`]);
  const lines = linesAt(80, rows, [{ head: 'ID' }]);
  expect(lines).toHaveLength(130_001);
  expect([lines[1], lines[51], lines.at(-1)]).toEqual(['0', '50', '129999']);
});
