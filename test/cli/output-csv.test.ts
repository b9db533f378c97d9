import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { renderCsv, unescapeFormula } from '../../src/cli/output/csv.ts';
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
