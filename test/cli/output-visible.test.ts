import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  quoteBlank,
  tabSeparated,
  tabSeparatedLine,
  visible,
  visibleJson,
} from '../../src/cli/output/visible.ts';
import { displayWidth } from '../../src/cli/output/width.ts';
import { graphemes, hostileSoup } from '../helpers/hostile-text.ts';

const ZWJ = '\u200d';

describe('text that could steer a terminal, or deceive who reads it', () => {
  test.each([
    ['a line end', 'a\r\nb\tc', 'a\\r\\nb\\tc'],
    ['an escape sequence', '\u001b[2J', '\\x1b[2J'],
    ['C0 and DEL', '\u0000\u0007\u007f', '\\x00\\x07\\x7f'],
    ['C1', '\u009b31m', '\\x9b31m'],
    ['an override and an isolate', '\u202eevil\u2066x\u2069', '\\u202eevil\\u2066x\\u2069'],
    ['marks of direction', '\u200e\u200f\u061c', '\\u200e\\u200f\\u061c'],
    ['separators of lines', '\u2028\u2029', '\\u2028\\u2029'],
    ['a space without width', 'Re\u200bx', 'Re\\u200bx'],
    ['a word joiner', 'Re\u2060x', 'Re\\u2060x'],
    ['a byte order mark', '\ufeffRex', '\\ufeffRex'],
    ['a soft hyphen', 'Re\u00adx', 'Re\\xadx'],
    ['an interlinear annotation', '\ufff9a\ufffab\ufffb', '\\ufff9a\\ufffab\\ufffb'],
    ['text in tags', 'Rex\u{e0048}\u{e0069}', 'Rex\\u{e0048}\\u{e0069}'],
    ['text in tags behind a flag', '🏴\u{e0048}\u{e007f}', '🏴\\u{e0048}\\u{e007f}'],
    ['half a pair', 'a\ud83d', 'a\\ud83d'],
    ['the other half', '\udc36a', '\\udc36a'],
    ['Hangul fillers', '\u3164\u115f\uffa0', '\\u3164\\u115f\\uffa0'],
    ['a joiner in Latin', `Re${ZWJ}x`, 'Re\\u200dx'],
    ['a joiner behind a joiner', `🐈${ZWJ}${ZWJ}`, `🐈${ZWJ}\\u200d`],
    ['a variation selector behind a letter', 'Rex\ufe0f', 'Rex\\ufe0f'],
    ['the second of two', '❤\ufe0f\ufe0f', '❤\ufe0f\\ufe0f'],
    ['text in variation selectors', '😀\u{e0158}\u{e0155}', '😀\u{e0158}\\u{e0155}'],
    ['a mark at the start', '\u0301a', '\\u0301a'],
    ['a mark behind a space', 'a \u0301', 'a \\u0301'],
    ['marks piled up', `a${'\u0301'.repeat(10)}`, `a${'\u0301'.repeat(8)}\\u0301\\u0301`],
    ['marks piled up with joiners', `ක${`\u0dca${ZWJ}`.repeat(5)}`, /\\u0dca/],
    ['a character that is none', 'a\uffff\u{1fffe}', 'a\\uffff\\u{1fffe}'],
  ])('%s is written out', (_, text, expected) => {
    if (typeof expected === 'string') expect(visible(text)).toBe(expected);
    else expect(visible(text)).toMatch(expected);
  });

  test.each([
    ...Object.entries(graphemes),
    ['ASCII, a backslash too', 'Rex \\x1b'],
    ['a couple', '👩🏽‍❤️‍💋‍👨🏻'],
    ['a cat', '🐈‍⬛'],
    ['a non-joiner in Persian', 'می\u200cخواهم'],
    ['a joiner in Sinhala', 'ශ්\u200dරී'],
    ['a joiner before a mark in Bengali', 'র\u200d\u09cdয'],
    ['an ideograph’s variant', '葛\u{e0100}'],
    ['a variant in Mongolian', 'ᠠ\u180bᠨ'],
    ['Hebrew with points and accents', 'בְּרֵאשִׁ֖ית'],
    ['Vietnamese, decomposed', 'Tiê\u0301ng'],
    ['Thai', 'น้ำ'],
    ['a private character', '\uf8ff'],
  ])('%s stays', (_, text) => {
    expect(visible(text)).toBe(text);
  });

  test('nothing of it is left, whatever the text', () => {
    fc.assert(
      fc.property(fc.oneof(hostileSoup, fc.string({ unit: 'binary' })), (text) => {
        const shown = visible(text);
        expect(shown).not.toMatch(
          /[\p{Cc}\p{Cs}\p{Bidi_Control}\u2028\u2029\u200b\u00ad\ufeff\ufff9-\ufffb]/u,
        );
        expect(shown).not.toMatch(/^\p{M}/u);
        for (const { segment } of new Intl.Segmenter().segment(shown)) {
          expect(displayWidth(segment)).toBeGreaterThan(0);
        }
      }),
      { numRuns: 500 },
    );
  });

  test('a JSON text stays valid, and the same document', () => {
    fc.assert(
      fc.property(hostileSoup, hostileSoup, (name, value) => {
        const document = { [name]: [value, 1] };
        const shown = visibleJson(JSON.stringify(document, undefined, 2));
        expect(JSON.parse(shown)).toEqual(JSON.parse(JSON.stringify(document)));
        expect(shown).not.toMatch(/[^\P{Cc}\n]|[\p{Bidi_Control}\u2028\u2029\u200b]/u);
      }),
      { numRuns: 300 },
    );
  });
});

test.each([
  ['', '""'],
  ['  ', '"  "'],
  ['\u2800\u3000\u00a0', '"\u2800\u3000\u00a0"'],
  [' a ', ' a '],
])('of the blank text %j something is seen: %j', (text, shown) => {
  expect(quoteBlank(text)).toBe(shown);
});

describe('a tab-separated field', () => {
  test('tells a tab from its escape', () => {
    expect(tabSeparated('a\tb')).toBe('a\\tb');
    expect(tabSeparated('a\\tb')).toBe('a\\\\tb');
  });

  test('has everything as it came but what steers a terminal', () => {
    expect(tabSeparatedLine(['\u200bRe\u00adx\u0301', '\u001b[31m\u202e\n'])).toBe(
      '\u200bRe\u00adx\u0301\t\\x1b[31m\\u202e\\n\n',
    );
  });
});
