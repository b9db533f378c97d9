import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import { INT64_MAX, INT64_MIN, int64, int64Text, parseInt64 } from '../../src/contract/int64.ts';

describe('parseInt64', () => {
  test.each([
    ['0', 0n],
    ['-1', -1n],
    ['9007199254740993', 9007199254740993n],
    ['9223372036854775807', INT64_MAX],
    ['-9223372036854775808', INT64_MIN],
  ])('reads %s', (text, value) => expect(parseInt64(text)).toBe(value));

  test.each([
    '',
    ' 1',
    '1 ',
    '+1',
    '-0',
    '01',
    '1.0',
    '1e3',
    '0x10',
    '1_000',
    '١',
    '9223372036854775808',
    '-9223372036854775809',
    '9'.repeat(400),
  ])('refuses %j', (text) => expect(parseInt64(text)).toBeUndefined());

  test('reads every int64 and gives it back', () => {
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
  ])('int64 takes %s', (value, expected) => expect(z.parse(int64, value)).toBe(expected));

  test.each([
    [1.5],
    [2 ** 53],
    [Number.NaN],
    [INT64_MAX + 1n],
    [INT64_MIN - 1n],
    ['3'],
    [null],
    [undefined],
    [{}],
  ])('int64 refuses %s', (value) => expect(z.safeParse(int64, value).success).toBe(false));

  test('say what is missing and what is wrong', () => {
    const message = (value: unknown) => z.safeParse(int64Text, value).error?.issues[0]?.message;
    expect(message(undefined)).toBe('is required');
    expect(message('x')).toMatch(/^must be an integer from -9223372036854775808 to 9223372036854775807/);
  });
});
