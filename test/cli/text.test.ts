import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sanitizeForTerminal, sanitizeJson, shellQuote, tsvLine } from '../../src/cli/output/text.ts';
import { cases } from '../helpers/cases.ts';
import { graphemes, hostileTexts } from '../helpers/hostile-text.ts';

describe('control characters and invisible characters', () => {
  test.each([
    ['a line end', 'a\r\nb\tc', 'a\\r\\nb\\tc'],
    ['C0 and DEL', '\u0000\u0007\u007f', '\\x00\\x07\\x7f'],
    ['an override and an isolate', '\u202eevil\u2066x\u2069', '\\u202eevil\\u2066x\\u2069'],
    ['line and paragraph separators', '\u2028\u2029', '\\u2028\\u2029'],
    ['text of tag characters', 'Rex\u{e0048}\u{e0069}', 'Rex\\u{e0048}\\u{e0069}'],
    ['Hangul fillers', '\u3164\u115f\uffa0', '\\u3164\\u115f\\uffa0'],
  ])('%s is escaped', (_, text, shown) => {
    expect(sanitizeForTerminal(text)).toBe(shown);
  });

  test.each([
    ...Object.entries(graphemes),
    ['ASCII, including a backslash', 'Rex \\x1b'],
    ['a non-joiner in Persian', 'می\u200cخواهم'],
    ['a joiner in Sinhala', 'ශ්\u200dරී'],
    ['a joiner before a mark in Bengali', 'র\u200d\u09cdয'],
    ['an ideograph’s variant', '葛\u{e0100}'],
    ['a variant in Mongolian', 'ᠠ\u180bᠨ'],
    ['Hebrew with points and accents', 'בְּרֵאשִׁ֖ית'],
  ])('%s is kept', (_, text) => {
    expect(sanitizeForTerminal(text)).toBe(text);
  });

  test('are escaped in any text', () => {
    fc.assert(
      fc.property(fc.oneof(hostileTexts, fc.string({ unit: 'binary' })), (text) => {
        const shown = sanitizeForTerminal(text);
        expect(shown).not.toMatch(
          /[\p{Cc}\p{Cs}\p{Bidi_Control}\u2028\u2029\u200b\u00ad\ufeff\ufff9-\ufffb]/u,
        );
      }),
      { numRuns: cases(500) },
    );
  });

  test('are escaped in JSON so that its value stays the same', () => {
    fc.assert(
      fc.property(hostileTexts, hostileTexts, (name, value) => {
        const document = { [name]: [value, 1] };
        const shown = sanitizeJson(JSON.stringify(document, undefined, 2));
        expect(JSON.parse(shown)).toEqual(JSON.parse(JSON.stringify(document)));
        expect(shown).not.toMatch(/[^\P{Cc}\n]|[\p{Bidi_Control}\u2028\u2029\u200b]/u);
      }),
      { numRuns: cases(300) },
    );
  });
});

test.each([
  [['a\tb', 'c'], 'a\\tb\tc\n'],
  [['a\\tb'], 'a\\\\tb\n'],
  [['\u001b[31m\u009b\u007f\u202e\n'], '\\x1b[31m\\x9b\\x7f\\u202e\\n\n'],
  [['\u200bRe\u00adx\u0301'], '\\u200bRe\\xadx\u0301\n'],
])(
  'a line of tab-separated values escapes what controls a terminal, and backslashes: %j is written as %j',
  (cells, line) => {
    expect(tsvLine(cells)).toBe(line);
  },
);

test.each([
  ['linux', ['pets', 'import', './a-b.csv'], 'pets import ./a-b.csv'],
  ['linux', ['a b', "it's", '$HOME', 'a\\b', ''], "'a b' 'it'\\''s' '$HOME' 'a\\b' ''"],
  ['win32', ['pets', 'import', 'C:\\shop\\a.csv'], 'pets import C:\\shop\\a.csv'],
  ['win32', ['a b', 'say "hi"', ''], '"a b" "say ""hi""" ""'],
] as const)('on %s the words %j are quoted as %s', (platform, words, line) => {
  expect(shellQuote(words, platform)).toBe(line);
});
