import fc from 'fast-check';

/** Graphemes that break naive tables, by description. */
export const graphemes = {
  'a family': '👨‍👩‍👧‍👦',
  'a skin color': '👩🏽‍🚀',
  'a flag': '🇩🇪',
  'a flag of tags': '🏴󠁧󠁢󠁥󠁮󠁧󠁿',
  'a keycap': '1️⃣',
  'a symbol that is an emoji by its selector': '❤️',
  'that symbol without the selector': '❤',
  'a wide character': '猫',
  'a Korean syllable in parts': '\u1112\u1161\u11ab',
  'a half-width character with its mark': 'ｶﾞ',
  'a letter with a mark': 'e\u0301',
  'a letter with many marks': `o${'\u0309\u0330\u035b'.repeat(2)}`,
  'a conjunct': 'क्षि',
  'a Thai vowel': 'กำ',
  'a right-to-left letter': 'ש',
  'an Arabic letter': 'غ',
  'a wide space': '\u3000',
  'a private character': '\ue000',
  'an ASCII letter': 'a',
  'a space': ' ',
} as const;

/** Random texts of these graphemes, any code points, and characters that break naive output, such as control codes. */
export const hostileTexts = fc
  .array(
    fc.oneof(
      fc.constantFrom(...Object.values(graphemes)),
      fc.string({ unit: 'binary', maxLength: 3 }),
      fc.constantFrom(
        ...'\r\n\t\u202e\u2067\u200b\u200d\ufe0f\u00ad\ufeff\u3164\u{e0041}\ufff9',
        ...['\u001b[31m', '\u009b2J', '\u001b]8;;http://evil\u0007', '\ud83d', '\udc36', '\u0301'.repeat(20)],
      ),
    ),
    { maxLength: 30 },
  )
  .map((each) => each.join(''));
