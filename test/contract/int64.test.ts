import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { INT64_MAX, INT64_MIN, int64, int64Text, parseInt64 } from '../../src/contract/int64.ts';
import { parseJson } from '../../src/contract/json.ts';

describe('parseInt64', () => {
  test.each([
    ['0', 0n],
    ['-1', -1n],
    ['9007199254740993', 9007199254740993n],
    ['9223372036854775807', INT64_MAX],
    ['-9223372036854775808', INT64_MIN],
  ])('reads %s', (text, value) => expect(parseInt64(text)).toBe(value));

  test.each([
    ...['', ' 1', '1 ', '+1', '-0', '01', '1.0', '1e3', '0x10', '1_000', '١'],
    ...['9223372036854775808', '-9223372036854775809', '9'.repeat(400)],
  ])('refuses %j', (text) => expect(parseInt64(text)).toBeUndefined());

  test('reads every int64', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: INT64_MIN, max: INT64_MAX }), (value) => {
        expect(parseInt64(value.toString())).toBe(value);
      }),
    );
  });
});

describe('the schemas', () => {
  test.each([
    [3, 3n],
    [-0, 0n],
    [INT64_MAX, INT64_MAX],
    [INT64_MIN, INT64_MIN],
  ])('int64 accepts %s', (value, expected) => expect(z.parse(int64, value)).toBe(expected));

  // As in JSON Schema, a number without a fraction is an integer in any notation.
  test.each([
    ['1.0', 1n],
    ['1e3', 1000n],
    ['1.50E+1', 15n],
    ['120e-1', 12n],
    ['-0', 0n],
    ['-0.000e99', 0n],
    ['0.0000001e7', 1n],
    ['-3.0', -3n],
    ['9223372036854775807.000', INT64_MAX],
    ['9.223372036854775807e18', INT64_MAX],
    ['-922337203685477580.8e1', INT64_MIN],
  ])('int64 accepts %s', (text, value) => expect(z.parse(int64, parseJson(text))).toBe(value));

  test.each([
    ...['1.5', '1e-1', '9.3e18', '9223372036854775808.0', '-9.223372036854775809e18', '1e19'],
    ...['1e999999999999999999999', '1e-999999999999999999999'],
  ])('int64 refuses %s', (text) => expect(z.safeParse(int64, parseJson(text)).success).toBe(false));

  test('int64 handles numbers of 60,000 digits', () => {
    const zeros = '0'.repeat(60_000);
    expect(z.parse(int64, parseJson(`1${zeros}e-60000`))).toBe(1n);
    for (const text of [`0.${zeros}1`, `1${zeros}`]) {
      expect(z.safeParse(int64, parseJson(text)).success).toBe(false);
    }
  });

  test('int64 accepts every integer in any notation', () => {
    const notations = (value: bigint, zeros: number) => [
      `${value}.${'0'.repeat(zeros + 1)}`,
      // Append no zeros to 0, because JSON does not allow 00.
      value === 0n ? '0e-1' : `${value}${'0'.repeat(zeros)}e-${zeros}`,
      `${value}e+0`,
    ];
    fc.assert(
      fc.property(fc.bigInt({ min: INT64_MIN, max: INT64_MAX }), fc.nat(30), (value, zeros) => {
        for (const text of notations(value, zeros)) expect(z.parse(int64, parseJson(text))).toBe(value);
      }),
    );
  });

  test.each([
    ...[1.5, 2 ** 53, Number.NaN, INT64_MAX + 1n, INT64_MIN - 1n].map((number) => [number]),
    ...['3', null, undefined, {}].map((value) => [value]),
  ])('int64 refuses %s', (value) => expect(z.safeParse(int64, value).success).toBe(false));

  test('distinguish a missing value from an invalid one', () => {
    const message = (value: unknown) => z.safeParse(int64Text, value).error?.issues[0]?.message;
    expect(message(undefined)).toBe('is required');
    expect(message('x')).toMatch(/^must be an integer from -9223372036854775808 to 9223372036854775807/);
  });
});
