import fc from 'fast-check';
import { LosslessNumber } from 'lossless-json';
import { describe, expect, test } from 'vitest';
import * as z from 'zod/mini';
import {
  INT64_MAX,
  INT64_MIN,
  int64,
  int64Text,
  parseInt64,
  parseJson,
  stringifyJson,
} from '../../src/contract/json.ts';

describe('parseJson', () => {
  test.each([
    ['1', 1],
    ['9007199254740991', 9007199254740991],
    ['9007199254740993', 9007199254740993n],
    ['9223372036854775807', 9223372036854775807n],
    ['-9223372036854775808', -9223372036854775808n],
    ['1.0', new LosslessNumber('1.0')],
    ['1e3', new LosslessNumber('1e3')],
    ['-0', new LosslessNumber('-0')],
    ['"2026-11-20T10:00:00.500Z 9007199254740993"', '2026-11-20T10:00:00.500Z 9007199254740993'],
  ])('reads %s', (text, value) => expect(parseJson(text)).toEqual(value));

  test.each([
    ...['1', '0', '-1', '1.5', '1.50', '-0', '1e3', '1E+400', '9007199254740993'],
    '0.1000000000000000055511151231257827',
  ])('keeps the digits of %s', (text) =>
    expect(stringifyJson(parseJson(`{"a":[${text}]}`))).toBe(`{"a":[${text}]}`),
  );

  test.each(['', '{', '[1,]', '{"a":}', "'a'", 'NaN', '01', '1.', '\u00a01', '{"a":1}x'])(
    'refuses %j',
    (text) => expect(() => parseJson(text)).toThrow(SyntaxError),
  );

  test.each(['{"__proto__":{"x":1},"a":1,"a":2}', '{"__proto__":{"x":1.0},"a":1.0,"a":2}'])(
    'the last of two equal names wins, and no name changes the prototype, with either parser: %s',
    (text) => {
      const value = parseJson(text) as Record<string, unknown>;
      expect(value['a']).toBe(2);
      expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
      expect('x' in value).toBe(false);
    },
  );

  test('refuses a document that is nested too deeply', () => {
    expect(() => parseJson('['.repeat(100_000))).toThrow(/nested deeper than 500 levels/);
    expect(() => parseJson('[[[1]]]', 2)).toThrow(SyntaxError);
    expect(parseJson('[["[[["]]', 2)).toEqual([['[[[']]);
    expect(parseJson('[["\\"[[["]]', 2)).toEqual([['"[[[']]);
  });

  test('reads and writes any JSON like the native parser', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const written = stringifyJson(parseJson(text));
        expect(JSON.parse(written)).toEqual(JSON.parse(text));
      }),
    );
  });
});

test('stringifyJson writes big integers as digits, and indents on request', () => {
  expect(stringifyJson({ a: 9223372036854775807n })).toBe('{"a":9223372036854775807}');
  expect(stringifyJson([1n], { indent: 2 })).toBe('[\n  1\n]');
  expect(stringifyJson(undefined)).toBe('null');
});

// Other tests have the texts that it refuses: test/cli/arguments.test.ts, and the ids of fuzz-requests.test.ts.
test('parseInt64 reads every int64', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: INT64_MIN, max: INT64_MAX }), (value) => {
      expect(parseInt64(value.toString())).toBe(value);
    }),
  );
});

describe('the schemas of int64', () => {
  const parseOne = (text: string) => [parseJson(text)];

  // As in JSON Schema, a number without a fraction is an integer in any notation.
  test.each([
    [3, 3n],
    [-0, 0n],
    [INT64_MAX, INT64_MAX],
    [INT64_MIN, INT64_MIN],
    [parseJson('1.50E+1'), 15n],
    [parseJson('120e-1'), 12n],
    [parseJson('-0'), 0n],
    [parseJson('-0.000e99'), 0n],
    [parseJson('0.0000001e7'), 1n],
    [parseJson('9.223372036854775807e18'), INT64_MAX],
    [parseJson('-922337203685477580.8e1'), INT64_MIN],
  ])('int64 accepts %s', (value, expected) => expect(z.parse(int64, value)).toBe(expected));

  test.each([
    ...['1.5', '1e-1', '9.3e18', '9223372036854775808.0', '-9.223372036854775809e18', '1e19'].map(parseOne),
    ...['1e999999999999999999999', '1e-999999999999999999999'].map(parseOne),
    ...[1.5, 2 ** 53, Number.NaN, INT64_MAX + 1n, INT64_MIN - 1n].map((number) => [number]),
    ...['3', null, undefined, {}].map((value) => [value]),
  ])('int64 refuses %s', (value) => expect(z.safeParse(int64, value).success).toBe(false));

  test('int64 handles numbers of 60,000 digits', () => {
    const zeros = '0'.repeat(60_000);
    expect(z.parse(int64, parseJson(`1${zeros}e-60000`))).toBe(1n);
    for (const text of [`0.${zeros}1`, `1${zeros}`]) {
      expect(z.safeParse(int64, parseJson(text)).success).toBe(false);
    }
  });

  test('int64 accepts every integer in any notation', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: INT64_MIN, max: INT64_MAX }), fc.nat(30), (value, more) => {
        const zeros = '0'.repeat(more);
        // Append no zeros to 0, because JSON does not allow 00.
        const negativeExponent = value === 0n ? '0e-1' : `${value}${zeros}e-${more}`;
        for (const text of [`${value}.0${zeros}`, negativeExponent, `${value}e+0`])
          expect(z.parse(int64, parseJson(text))).toBe(value);
      }),
    );
  });

  test('distinguish a missing value from an invalid one', () => {
    const message = (value: unknown) => z.safeParse(int64Text, value).error?.issues[0]?.message;
    expect(message(undefined)).toBe('is required');
    expect(message('x')).toMatch(/^must be an integer from -9223372036854775808 to 9223372036854775807/);
  });
});
