import fc from 'fast-check';
import { LosslessNumber } from 'lossless-json';
import { describe, expect, test } from 'vitest';
import { parseJson, stringifyJson } from '../../src/contract/json.ts';

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

  test('the last of two equal names wins, with either parser', () => {
    expect(parseJson('{"a":1,"a":2}')).toEqual({ a: 2 });
    expect(parseJson('{"a":1.0,"a":2}')).toEqual({ a: 2 });
  });

  test.each(['{"__proto__":{"x":1}}', '{"__proto__":{"x":1.0}}'])(
    '%s does not change the prototype',
    (text) => {
      const value = parseJson(text) as object;
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
