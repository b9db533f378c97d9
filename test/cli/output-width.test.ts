import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { cutToWidth, displayWidth, wrapToWidth } from '../../src/cli/output/width.ts';
import { graphemeTexts } from '../helpers/hostile-text.ts';

const segments = (text: string) => [...new Intl.Segmenter().segment(text)].map(({ segment }) => segment);

describe('the width of a text', () => {
  test.each([
    ['', 0],
    ['Fürst Pückler', 13],
    ['👨‍👩‍👧‍👦', 2],
    ['🐈‍⬛🐈‍⬛', 4],
    ['👩🏽‍🚀', 2],
    ['🏴󠁧󠁢󠁥󠁮󠁧󠁿', 2],
    ['🇩🇪', 2],
    ['1️⃣', 2],
    ['❤️', 2],
    ['❤', 1],
    ['☝🏻', 2],
    ['猫と犬', 6],
    ['한국', 4],
    ['\u1112\u1161\u11ab\u1100\u116e\u11a8', 4],
    ['ｶﾞ', 2],
    ['e\u0301', 1],
    [`Z${'\u0301'.repeat(500)}`, 1],
    ['क्षि', 3],
    ['กำ', 2],
    ['שלום', 4],
    ['\u001b[31mred\u001b[39m', 3],
  ])('of %j is %i columns', (text, columns) => {
    expect(displayWidth(text)).toBe(columns);
  });

  test.each([
    ['before the CJK ideographs', 0x20, 0x4e00],
    ['after the CJK ideographs', 0xa000, 0xac00],
    ['after Hangul', 0xd7a4, 0x1_0000],
    ['of emoji', 0x1_f000, 0x1_fc00],
  ])('agrees with string-width for each character %s', (_, first, end) => {
    const differing: string[] = [];
    for (let code = first; code < end; code++) {
      const char = String.fromCodePoint(code);
      // Skip lone surrogates, because they are replaced when they are written.
      if (/\p{Cs}/u.test(char)) continue;
      if (stringWidth(char) !== displayWidth(char)) differing.push(code.toString(16));
    }
    expect(differing).toEqual([]);
  });

  test('is the sum of the widths of its graphemes', () => {
    fc.assert(
      fc.property(graphemeTexts, (text) => {
        const sum = segments(text).reduce((width, each) => width + displayWidth(each), 0);
        expect(displayWidth(text)).toBe(sum);
      }),
    );
  });
});

describe('cutting a text', () => {
  test.each([
    ['Rex', 3, 'Rex'],
    ['Rexy', 3, 'Re…'],
    ['Rex', 1, '…'],
    ['Rex', 0, ''],
    ['', 0, ''],
    ['猫と犬', 6, '猫と犬'],
    ['猫と犬', 5, '猫と…'],
    ['猫と犬', 4, '猫…'],
    ['a👨‍👩‍👧‍👦b', 3, 'a…'],
    ['a👨‍👩‍👧‍👦b', 4, 'a👨‍👩‍👧‍👦b'],
    ['👨‍👩‍👧‍👦', 1, '…'],
    ['🇩🇪🇫🇷', 3, '🇩🇪…'],
    ['e\u0301e\u0301e\u0301', 2, 'e\u0301…'],
  ])('%j to %i columns gives %j', (text, columns, cut) => {
    expect(cutToWidth(text, columns)).toBe(cut);
  });

  test('never exceeds the width, keeps a text that fits, and cuts between graphemes', () => {
    fc.assert(
      fc.property(graphemeTexts, fc.integer({ min: 1, max: 60 }), (text, columns) => {
        const cut = cutToWidth(text, columns);
        expect(displayWidth(cut)).toBeLessThanOrEqual(columns);
        expect(cut === text).toBe(displayWidth(text) <= columns);
        if (cut === text) return;
        const kept = cut.slice(0, -1);
        expect(cut.endsWith('…') && text.startsWith(kept)).toBe(true);
        const next = segments(text.slice(kept.length))[0] ?? '';
        expect(segments(text)).toEqual([...segments(kept), ...segments(text.slice(kept.length))]);
        expect(displayWidth(kept) + displayWidth(next)).toBeGreaterThanOrEqual(columns);
      }),
    );
  });
});

describe('wrapping a paragraph', () => {
  test.each<[string, number, number, string[]]>([
    ['one two three', 7, 0, ['one two', 'three']],
    ['one two three', 8, 2, ['one two', '  three']],
    ['one  two', 20, 0, ['one two']],
    ['  → look: pets list', 12, 4, ['  → look:', '    pets', '    list']],
    ['see https://example.com/a/long/path now', 10, 2, ['see', '  https://example.com/a/long/path', '  now']],
    ['猫と犬 猫と犬', 8, 0, ['猫と犬', '猫と犬']],
    ['👨‍👩‍👧‍👦 👨‍👩‍👧‍👦', 5, 0, ['👨‍👩‍👧‍👦 👨‍👩‍👧‍👦']],
    ['a\u00a0b c', 3, 0, ['a\u00a0b', 'c']],
    ['', 10, 2, ['']],
    ['one', 0, 0, ['one']],
  ])('%j in %i columns, indented by %i', (text, columns, indent, lines) => {
    expect(wrapToWidth(text, columns, indent)).toEqual(lines);
  });

  test('keeps every word whole and in order, and no line is too wide unless it is a single word', () => {
    const anyColumns = fc.integer({ min: 1, max: 60 });
    fc.assert(
      fc.property(graphemeTexts, anyColumns, fc.integer({ min: 0, max: 8 }), (text, columns, indent) => {
        const lines = wrapToWidth(text, columns, indent);
        const words = (each: string) => each.split(/ +/).filter(Boolean);
        expect(lines.flatMap(words)).toEqual(words(text));
        for (const line of lines) {
          if (words(line).length > 1) expect(displayWidth(line)).toBeLessThanOrEqual(columns);
        }
        for (const line of lines.slice(1)) expect(line.startsWith(' '.repeat(indent))).toBe(true);
      }),
    );
  });
});
