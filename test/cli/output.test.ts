import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { renderCsv, unguard } from '../../src/cli/output/csv.ts';
import { tabSeparated, visible } from '../../src/cli/output/visible.ts';

describe('text that could steer a terminal', () => {
  test.each([
    ['plain ✓ 🐈‍⬛ 猫 é', 'plain ✓ 🐈‍⬛ 猫 é'],
    ['\u001b[2J', '\\x1b[2J'],
    ['a\r\nb\tc', 'a\\r\\nb\\tc'],
    ['\u0000\u0007\u007f', '\\x00\\x07\\x7f'],
    ['\u009b31m', '\\x9b31m'],
    ['\u202eevil\u2066x\u2069', '\\u202eevil\\u2066x\\u2069'],
    ['\u200e\u200f\u061c', '\\u200e\\u200f\\u061c'],
    ['\u2028\u2029', '\\u2028\\u2029'],
    ['back\\slash', 'back\\slash'],
  ])('%j is shown as %j', (text, expected) => {
    expect(visible(text)).toBe(expected);
  });

  test('nothing of it is left, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(visible(text)).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u);
      }),
    );
  });
});

test('a tab-separated field tells a tab from its escape', () => {
  expect(tabSeparated('a\tb')).toBe('a\\tb');
  expect(tabSeparated('a\\tb')).toBe('a\\\\tb');
});

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
