import { expect, test } from 'vitest';
import { numberOf, sumOf } from '../../src/cli/fields/sort.ts';
import { parseJson } from '../../src/contract/json.ts';

test.each([
  ['[]', '0'],
  ['[1, 2]', '3'],
  ['[0.1, 0.2]', '0.3'],
  ['[12.50, 9.5, "100.005"]', '122.005'],
  ['[9223372036854775807, 1]', '9223372036854775808'],
  ['[-0.05, 0.01]', '-0.04'],
  ['[-1.5, -2]', '-3.5'],
  ['[12.50, -12.50]', '0.00'],
])('the sum of %s is %s', (values, sum) => {
  expect(sumOf(parseJson(values) as unknown[])).toBe(sum);
});

test.each(['1e3', 'x', '', '1,5', '.5', 'null'])('%j is not added up', (text) => {
  expect(() => sumOf([text])).toThrow(RangeError);
});

test.each<[unknown, unknown]>([
  [7, 7],
  ['12.50', 12.5],
  ['9223372036854775807', 9223372036854775807n],
  ['-3', -3n],
  ['1e3', 1000],
  ['', undefined],
  ['7 dogs', undefined],
  [null, undefined],
])('the number in %j is %s', (value, number) => {
  expect(numberOf(value)).toBe(number);
});
