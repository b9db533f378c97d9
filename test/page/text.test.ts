import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  escapeAndShorten,
  escapeInvisible,
  formatCount,
  formatMilliseconds,
  formatTime,
  type LoggedRequest,
  layOutJson,
  localTime,
  reasonText,
  statusKind,
} from '../../src/page/text.ts';
import { hostileTexts } from '../helpers/hostile-text.ts';

const now = new Date(2026, 10, 20, 12, 0, 0);
const laterToday = new Date(2026, 10, 20, 12, 1, 5).toISOString();
const tomorrow = new Date(2026, 10, 21, 0, 0, 0).toISOString();

test.each([
  [200, 'ok'],
  [429, 'rejected'],
  [503, 'failed'],
  [undefined, 'failed'],
] as const)('a request with status %s is %s', (status, kind) => {
  expect(statusKind(status === undefined ? {} : { status })).toBe(kind);
});

const used = 'the limit of 60 requests per minute is used up';
test.each<[Partial<LoggedRequest> & { because: string }, string]>([
  [{ outcome: 'rate_limited', because: used, until: laterToday }, `${used}; retry at 12:01:05`],
  [
    { outcome: 'banned', because: 'the key is banned', until: tomorrow },
    'the key is banned; the ban ends at 2026-11-21 00:00:00',
  ],
  [{ because: '', delay: 90 }, 'delayed by 90.0 ms'],
  [{ because: 'a', delay: 3_000, ignored: 'wait' }, 'a; delayed by 3.00 s; ignored: Prefer: wait'],
  [{ because: 'a', foreignOrigin: 'unknown' }, 'a; any website can send this'],
  [{ because: 'a', foreignOrigin: 'http://localhost:5173' }, 'a'],
])('the reason of %j is "%s"', (request, expected) => {
  expect(reasonText(request as LoggedRequest, now)).toBe(expected);
});

test('times are local, with a date if they are not today', () => {
  expect(localTime(new Date(2026, 0, 2, 3, 4, 5, 6).toISOString())).toBe('03:04:05.006');
  expect(formatTime(tomorrow, now)).toBe('2026-11-21 00:00:00');
});

test('durations have a unit, and counts a plural', () => {
  expect([0.84, 1_234].map(formatMilliseconds)).toEqual(['0.8 ms', '1.23 s']);
  expect([1, 16_384].map((count) => formatCount(count, 'byte'))).toEqual(['1 byte', '16,384 bytes']);
});

describe('text from clients', () => {
  test.each([
    ['\u202eevil\u0007', '\\u202eevil\\u0007'],
    ['a\nb\tc', 'a\\nb\\tc'],
    ['👨‍👩‍👧 ❤️ שלום', '👨‍👩‍👧 ❤️ שלום'],
    ['a\u{e0041}\u3164\u{e0100}b', 'a\\u{e0041}\\u3164\\u{e0100}b'],
    ['x'.repeat(100_000), `${'x'.repeat(400)}…`],
  ])('%j is shown on one line', (text, shown) => {
    expect(escapeAndShorten(text)).toBe(shown);
  });

  test('never has a character that hides or reverses text, and keeps lines and tabs', () => {
    expect(escapeInvisible('{\n\t"a": 1 }')).toBe('{\n\t"a": 1 }');
    fc.assert(
      fc.property(hostileTexts, (text) => {
        // Joiners and variation selectors are not escaped, because some scripts and emoji need them.
        const shown = escapeInvisible(text).replace(/[\n\t]|\u200c|\u200d|\ufe0e|\ufe0f/g, '');
        expect(shown).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/u);
      }),
    );
  });
});

test.each([
  ['{"id":9007199254740993,"a":[],"b":{}}', '{\n  "id": 9007199254740993,\n  "a": [],\n  "b": {}\n}'],
  ['[1.50, "a,{\\"}", {"x" :-0}]', '[\n  1.50,\n  "a,{\\"}",\n  {\n    "x": -0\n  }\n]'],
  ['{"a":1,"a":2}', '{\n  "a": 1,\n  "a": 2\n}'],
  ['"text"', undefined],
  ['{"a":', undefined],
  ['', undefined],
  ['[ ]', '[]'],
])('%j is laid out with all its digits and names', (text, expected) => {
  expect(layOutJson(text)).toBe(expected);
});

test('JSON that is laid out is the same JSON', () => {
  fc.assert(
    fc.property(fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(hostileTexts, fc.jsonValue())), (value) => {
      const text = JSON.stringify(value);
      expect(JSON.parse(layOutJson(text) ?? '')).toEqual(JSON.parse(text));
    }),
  );
  // The depth of the indentation is bounded.
  const deep = `${'['.repeat(5_000)}1${']'.repeat(5_000)}`;
  expect(layOutJson(deep)?.length).toBeLessThan(100 * deep.length);
});
