import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { renderCsv, unguard } from '../../src/cli/output/csv.ts';

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
  ])('the cell %j is written %j', (text, cell) => {
    expect(renderCsv([[text, 'x']])).toBe(`${cell},x\r\n`);
  });

  test('a number is no formula', () => {
    expect(renderCsv([[-5n, 9223372036854775807n]])).toBe('-5,9223372036854775807\r\n');
  });

  test('no cell begins as a formula, and every text comes back', () => {
    const dangerous = fc.string({ unit: fc.constantFrom(...'\'=+-@\t\r\n",a é'.split('')) });
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), dangerous), (text) => {
        const [[cell = '']] = parse(renderCsv([[text, 'x']])) as [string[]];
        expect(cell).not.toMatch(/^[=+\-@\t\r]/);
        expect(unguard(cell)).toBe(text);
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    ["'Rex", "'Rex"],
    ["'", "'"],
    ["'=1", '=1'],
    ['=1', '=1'],
  ])('a person’s own cell %j is read as %j', (cell, text) => {
    expect(unguard(cell)).toBe(text);
  });
});
