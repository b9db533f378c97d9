import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Console } from '../../src/cli/output/console.ts';
import { renderCsv, unescapeFormula, writeCsv } from '../../src/cli/output/csv.ts';
import { cases } from '../helpers/cases.ts';

describe('CSV', () => {
  test.each([
    ['Rex', 'Rex'],
    ['=1+1', "'=1+1"],
    ['+1', "'+1"],
    ['-1', "'-1"],
    ['@a', "'@a"],
    ['\tx', "'\tx"],
    ["'=x", "''=x"],
    ["'Rex", "'Rex"],
    ['a=b', 'a=b'],
    ['a,b', '"a,b"'],
    ['a"b', '"a""b"'],
    ['a\nb', '"a\nb"'],
    ['\rx', '"\'\rx"'],
  ])('%j is written as %j', (text, cell) => {
    expect(renderCsv([[text, 'x']])).toBe(`${cell},x\r\n`);
  });

  test.each(['', undefined])(
    'in a single column, %j is written in quotes, and not as a blank line',
    (value) => {
      expect(renderCsv([['name'], [value], ['Rex']])).toBe('name\r\n""\r\nRex\r\n');
    },
  );

  test('many rows are written in parts, which are created one at a time', async () => {
    let created = 0;
    function* rows() {
      for (; created < 1_000; created++) yield Array.from({ length: 100 }, () => created);
    }
    const parts: { text: string; created: number }[] = [];
    const console = {
      isTerminal: false,
      write: async (text: string) => void parts.push({ text, created }),
    } as unknown as Console;
    await writeCsv(console, rows(), 'an order');
    expect(parts.map((part) => part.created)).toEqual([199, 399, 599, 799, 999]);
    const written = parse(parts.map(({ text }) => text).join('')) as string[][];
    expect(written.map(([cell]) => Number(cell))).toEqual(Array.from({ length: 1_000 }, (_, i) => i));
  });

  test('a negative number is not escaped as a formula', () => {
    expect(renderCsv([[-5n, 9223372036854775807n]])).toBe('-5,9223372036854775807\r\n');
  });

  test('no cell starts like a formula, and every text is restored', () => {
    const dangerous = fc.string({ unit: fc.constantFrom(...'\'=+-@\t\r\n",a é'.split('')) });
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), dangerous), (text) => {
        const [[cell = '']] = parse(renderCsv([[text, 'x']])) as [string[]];
        expect(cell).not.toMatch(/^[=+\-@\t\r]/);
        expect(unescapeFormula(cell)).toBe(text);
      }),
      { numRuns: cases(2_000) },
    );
  });

  test.each([
    ["'Rex", "'Rex"],
    ["'", "'"],
    ["'=1", '=1'],
    ['=1', '=1'],
  ])('a cell %j that a person wrote is read as %j', (cell, text) => {
    expect(unescapeFormula(cell)).toBe(text);
  });
});
