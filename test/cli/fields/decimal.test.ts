import { describe, expect, test } from 'vitest';
import {
  addDecimals,
  compareDecimals,
  type Decimal,
  decimalOf,
  formatDecimal,
} from '../../../src/cli/fields/decimal.ts';
import { parseJson } from '../../../src/contract/json.ts';

const decimal = (text: string): Decimal => {
  const value = decimalOf(text);
  if (value === undefined) throw new Error(`not a decimal: ${text}`);
  return value;
};

describe('a number', () => {
  test.each([
    ['12.50', '12.50'],
    ['-0.05', '-0.05'],
    ['9223372036854775807', '9223372036854775807'],
    ['1.5e3', '1500'],
    ['1e-3', '0.001'],
    ['-0', '0'],
    ['12345678901234567890.10', '12345678901234567890.10'],
  ])('%s keeps all its digits, as JSON and as text', (text, expected) => {
    expect(formatDecimal(decimal(text))).toBe(expected);
    const value = decimalOf(parseJson(text));
    expect(value && formatDecimal(value)).toBe(expected);
  });

  test.each(['', ' ', '1,50', '€ 5', '0x10', '1_000', '.5', '5.', '1e', '1e999999999', 'NaN', 'Infinity'])(
    'the text %j is not one',
    (text) => {
      expect(decimalOf(text)).toBeUndefined();
    },
  );

  test.each([true, null, undefined, [1], { a: 1 }].map((value) => [value]))('%j is not one', (value) => {
    expect(decimalOf(value)).toBeUndefined();
  });
});

test.each([
  [['0.1', '0.2'], '0.3'],
  [['12.50', '12.5'], '25.00'],
  [['9223372036854775807', '1'], '9223372036854775808'],
  [['5', '-5.00'], '0.00'],
  [['1e400', '-1e400', '0.01'], '0.01'],
  [['-0.01', '-0.02'], '-0.03'],
])('the sum of %j is exactly %s', (texts, sum) => {
  expect(formatDecimal(texts.map(decimal).reduce(addDecimals))).toBe(sum);
});

test.each([
  ['12.5', '12.50', 0],
  ['9', '10', -1],
  ['-1', '-2', 1],
  ['9007199254740993', '9007199254740992', 1],
  ['0.1', '0.10000000000000000001', -1],
])('%s compared with %s is %i', (a, b, expected) => {
  expect(compareDecimals(decimal(a), decimal(b))).toBe(expected);
});
