import { Chalk } from 'chalk';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import type { Console } from '../../src/cli/output/console.ts';
import { toCsv, unescapeFormula } from '../../src/cli/output/csv.ts';
import { chooseFormat, createPrinter, type OutputOptions } from '../../src/cli/output/printer.ts';
import { drawTable, type TableColumn } from '../../src/cli/output/table.ts';
import { cut } from '../../src/cli/output/text.ts';
import { cases } from '../helpers/cases.ts';
import { graphemes, hostileTexts } from '../helpers/hostile-text.ts';

type Options = OutputOptions & { json?: boolean };
const choose = (
  { json = false, ...options }: Options,
  prints: 'rows' | 'text' = 'rows',
  isTerminal = false,
) => chooseFormat(options, { json, isTerminal, prints });

test.each<[Options, string, terminal?: string]>([
  [{}, 'lines', 'table'],
  [{ ndjson: true }, 'ndjson'],
  [{ excel: true }, 'excel'],
  [{ output: 'a.json' }, 'json'],
  [{ output: 'a.ndjson' }, 'ndjson'],
  [{ output: 'dir.json/a.csv' }, 'csv'],
  [{ output: 'a.tsv' }, 'tsv'],
  [{ output: 'a.txt' }, 'table'],
  [{ output: 'a.json', csv: true }, 'csv'],
])('rows with %o are printed as %s', (options, format, onTerminal = format) => {
  expect([choose(options), choose(options, 'rows', true)]).toEqual([format, onTerminal]);
});

test.each<[Options, string, string]>([
  [{ json: true, csv: true }, '--json and --csv cannot be combined', 'use only one'],
  [{ output: 'a.XLSX' }, 'pets cannot write .xlsx files', 'use .csv for a spreadsheet (with --excel'],
  [{ output: 'a.doc' }, 'pets cannot write .doc files', '.tsv'],
])('%o is refused', (options, message, hint) => {
  expect(() => choose(options)).toThrow(
    expect.objectContaining({ message, hint: expect.stringContaining(hint), code: 'usage' }),
  );
});

test('a text is JSON or text', () => {
  const options = [{ output: 'a.txt' }, { output: 'a.json' }, { output: 'a.sql' }, {}];
  expect(options.map((each) => choose(each, 'text'))).toEqual(['text', 'json', 'text', 'text']);
});

const csv = (rows: unknown[][], more: Partial<Console> = {}) =>
  toCsv(rows, { format: 'csv', isTerminal: false, hasDecimalComma: () => false, ...more });

describe('CSV', () => {
  test.each<[unknown, string]>([
    ['=1+1', "'=1+1"],
    [-1n, '-1'],
    ["'Rex", "'Rex"],
    ['a,b', '"a,b"'],
    ['a"b', '"a""b"'],
    [null, ''],
    [9223372036854775807n, '9223372036854775807'],
  ])('has %o as %j', (value, cell) => {
    expect(csv([[value, 'x']])).toBe(`${cell},x\r\n`);
  });

  test('has an empty value in a single column in quotes, and not as a blank line', () => {
    expect(csv([['name'], [''], [undefined], ['Rex']])).toBe('name\r\n""\r\n""\r\nRex\r\n');
  });

  test('has no cell that starts like a formula, and every text is restored', () => {
    const dangerous = fc.string({ unit: fc.constantFrom(...'\'=+-@\t\r\n",a é'.split('')) });
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), dangerous), (text) => {
        const [[cell = '']] = parse(csv([[text, 'x']])) as [string[]];
        expect(cell).not.toMatch(/^[=+\-@\t\r]/);
        expect(unescapeFormula(cell)).toBe(text);
      }),
      { numRuns: cases(2_000) },
    );
  });

  test('for Excel has semicolons and decimal commas if the locale writes decimals with a comma', () => {
    const rows = [['amount'], [12.5], ['a;b']];
    expect(csv(rows, { format: 'excel' })).toBe('amount\r\n12.5\r\na;b\r\n');
    expect(csv(rows, { format: 'excel', hasDecimalComma: () => true })).toBe('amount\r\n12,5\r\n"a;b"\r\n');
    expect(csv(rows, { hasDecimalComma: () => true })).toBe('amount\r\n12.5\r\na;b\r\n');
  });
});

test.each([
  ['lines', '1\ta\\tb\n', '20\ta\\tb\n'],
  ['ndjson', '{"n":1}\n', '{"n":20}\n'],
  ['csv', 'n,x\r\n1,a\tb\r\n', '20,a\tb\r\n'],
  ['excel', '\ufeffn,x\r\n1,a\tb\r\n', '20,a\tb\r\n'],
  ['tsv', 'n\tx\n1\t"a\tb"\n', '20\t"a\tb"\n'],
  ['json', '', '[{"n":1},{"n":20}]\n'],
  ['table', '', ' N  X\n 1  a\\tb\n20  a\\tb\n'],
])('%s is written as rows arrive, or when it is complete', async (format, first, rest) => {
  let written = '';
  const console = {
    format,
    columns: 80,
    colors: new Chalk({ level: 0 }),
    hasDecimalComma: () => false,
    async write(text: string) {
      written += text;
    },
  } as unknown as Console;
  const columns = [
    { name: 'n', value: (row: { n: number }) => row.n },
    { name: 'x', value: () => 'a\tb' },
  ];
  const printer = createPrinter(console, { columns });
  await printer.write([{ n: 1 }]);
  expect(written).toBe(first);
  await printer.write([{ n: 20 }]);
  await printer.end();
  expect(written).toBe(first + rest);
});

const terminal = new Chalk({ level: 0 });
const column = (head: string, cells: string[], more: Partial<TableColumn> = {}): TableColumn => ({
  head,
  cells,
  align: 'left',
  isFlexible: true,
  ...more,
});

const FIXED = { isFlexible: false };
const RIGHT = { align: 'right', isFlexible: false } as const;

/** The lines of a table of animals with these names. */
function animals(names: readonly string[], width: number): string[] {
  const all = (text: string) => names.map(() => text);
  const ids = names.map((_, i) => `${i + 1}`);
  const columns = [
    column('ID', ids, RIGHT),
    column('NAME', [...names]),
    column('CATEGORY', all('3'), RIGHT),
    column('STATUS', all('available'), FIXED),
  ];
  return drawTable(columns, width, terminal).text.split('\n').slice(0, -1);
}

describe('a table', () => {
  const anyName = fc.oneof(
    hostileTexts,
    fc.constantFrom('x'.repeat(10_000), `Z${'\u0301'.repeat(500)}`, 'א'.repeat(300)),
  );

  test('of any text has one line per row, fits, and aligns its columns', () => {
    fc.assert(
      fc.property(
        fc.array(anyName, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 40, max: 200 }),
        (names, width) => {
          const [head = '', ...lines] = animals(names, width);
          expect(lines).toHaveLength(names.length);
          const start = stringWidth(head) - 'STATUS'.length;
          for (const [i, line] of lines.entries()) {
            expect(line).toMatch(new RegExp(`^ *${i + 1} {2}.* 3 {2}available$`, 'su'));
            expect(stringWidth(line)).toBe(start + 'available'.length);
            expect(stringWidth(line)).toBeLessThanOrEqual(width);
          }
        },
      ),
      { numRuns: cases(300) },
    );
  });

  test.each(Object.entries(graphemes))('never cuts %s in half', (_, grapheme) => {
    for (let width = 34; width < 60; width++) {
      const [, line = ''] = animals([grapheme.repeat(20)], width);
      const cell = line.replace(/^.*?1 {2}/, '').replace(/\s+3 +available$/, '');
      expect(['', '…']).toContain(cell.replaceAll(grapheme, '').replaceAll('\u200e', '').trim());
    }
  });

  test('never cuts numbers, and leaves out the last columns instead', () => {
    const columns = [
      column('A', ['1'.repeat(20)], FIXED),
      ...['B', 'C', 'D'].map((head) => column(head, [head.repeat(20)])),
    ];
    const at = (width: number) => {
      const { text, shown } = drawTable(columns, width, terminal);
      return [shown, text.split('\n')[1]];
    };
    const number = '1'.repeat(20);
    expect(at(200)).toEqual([4, `${number}  ${'B'.repeat(20)}  ${'C'.repeat(20)}  ${'D'.repeat(20)}`]);
    expect(at(50)).toEqual([4, `${number}  BBBBBBB…  CCCCCCC…  DDDDDDD…`]);
    expect(at(49)).toEqual([3, `${number}  ${'B'.repeat(11)}…  ${'C'.repeat(12)}…`]);
    expect(at(21)).toEqual([1, number]);
    expect(at(10)).toEqual([1, '111111111…']);
    expect(at(Number.POSITIVE_INFINITY)).toEqual(at(200));
  });
});

test('a text in a message never exceeds its length', () => {
  fc.assert(
    fc.property(hostileTexts, fc.integer({ min: 1, max: 60 }), (text, length) => {
      const shown = cut(text, length);
      expect([...shown].length).toBeLessThanOrEqual(length);
      expect(shown === text || shown.endsWith('…')).toBe(true);
    }),
  );
  expect(['Rexy', 'Rex', '🐈🐈🐈🐈'].map((text) => cut(text, 3))).toEqual(['Re…', 'Rex', '🐈🐈…']);
});
