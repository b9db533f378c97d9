import { eastAsianWidth } from 'get-east-asian-width';

// Matches Latin, Greek, Cyrillic, punctuation and arrows, which take one column per UTF-16 unit. Most texts match, and
// do not need the grapheme segmenter, which takes 10 ms to create.
const PLAIN = /^[ -~\xa1-\xac\xae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2190-\u21ff]*$/;

const COLOUR = /\x1b\[[\d;]*m/g;

const ELLIPSIS = '…';

/**
 * The width of a text in terminal columns: two for an emoji or a wide character, none for combining marks, joiners and
 * colours. The text must be sanitised first. Unlike string-width, this function counts the spacing marks of Indic
 * scripts and Thai as terminals do.
 */
export const displayWidth = (text: string): number =>
  measureAndCut(text.replace(COLOUR, ''), Number.POSITIVE_INFINITY).width;

/** Cuts a text between graphemes to a maximum width. A cut text ends with an ellipsis. */
export const cutToWidth = (text: string, columns: number): string => measureAndCut(text, columns).text;

/** Cuts a text as `cutToWidth` does, and returns the width of the result too. */
export function measureAndCut(text: string, columns: number): { text: string; width: number } {
  if (columns < 1) return { text: '', width: 0 };
  if (PLAIN.test(text)) {
    if (text.length <= columns) return { text, width: text.length };
    return { text: text.slice(0, columns - 1) + ELLIPSIS, width: columns };
  }
  let width = 0;
  let kept = { end: 0, width: 0 };
  for (const { segment, index } of new Intl.Segmenter().segment(text)) {
    width += graphemeWidth(segment);
    if (width > columns) return { text: text.slice(0, kept.end) + ELLIPSIS, width: kept.width + 1 };
    if (width < columns) kept = { end: index + segment.length, width };
  }
  return { text, width };
}

/** A command in a message, such as `pets list --status sold`. It stays on one line, so that it can be copied. */
const COMMAND =
  /\bpets [a-z]+(?: [\w.-]+(?= [-<]))?(?: (?:--?[\w-]+(?:[ =][^\s;,.]+)?|<[^>]+>|"[^"]*"|\d+))*/g;

const NO_BREAK_SPACE = '\u00a0';

/** Wraps each line of a text between words, but not inside commands. Continuation lines are indented. */
export function wrapText(text: string, columns: number, indent: number): string {
  const kept = text.replace(COMMAND, (command) => command.replaceAll(' ', NO_BREAK_SPACE));
  return kept
    .split('\n')
    .flatMap((line) => wrapToWidth(line, columns, indent))
    .join('\n')
    .replaceAll(NO_BREAK_SPACE, ' ');
}

/**
 * Splits a paragraph into lines between words; lines after the first are indented. A word that is longer than a line,
 * such as a path, stays whole on its own line.
 */
export function wrapToWidth(text: string, columns: number, indent = 0): string[] {
  const margin = /^ */.exec(text)?.[0] ?? '';
  const [first = '', ...words] = text.split(/ +/).filter(Boolean);
  const lines: string[] = [];
  let line = margin + first;
  for (const word of words) {
    if (displayWidth(line) + 1 + displayWidth(word) <= columns) line += ` ${word}`;
    else {
      lines.push(line);
      line = ' '.repeat(indent) + word;
    }
  }
  return [...lines, line];
}

// A pictograph followed by an emoji selector, a skin colour or a joined pictograph is drawn as an emoji.
const COMPOSED_EMOJI =
  /^\p{Extended_Pictographic}.*?(?:[\ufe0f\u{1f3fb}-\u{1f3ff}]|\u200d\p{Extended_Pictographic})/su;
const FLAG_OR_KEYCAP = /^(?:\p{Regional_Indicator}{2}|[\d#*]\ufe0f?\u20e3)$/u;
const ZERO_WIDTH = /[\p{Mn}\p{Me}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/u;

/** The longest emoji in UTF-16 units. Terminals draw longer sequences of joined emoji as separate emoji. */
const LONGEST_EMOJI = 20;

// Vowels and final consonants of a decomposed Korean syllable are drawn into its first character.
const JAMO = /[\u1160-\u11ff\ud7b0-\ud7fb]/;

function graphemeWidth(grapheme: string): number {
  if (PLAIN.test(grapheme)) return grapheme.length;
  if (grapheme.length <= LONGEST_EMOJI && (COMPOSED_EMOJI.test(grapheme) || FLAG_OR_KEYCAP.test(grapheme)))
    return 2;
  let width = 0;
  for (const char of grapheme) {
    const isZero = ZERO_WIDTH.test(char) || (width > 0 && JAMO.test(char));
    if (!isZero) width += eastAsianWidth(char.codePointAt(0) ?? 0);
  }
  return width;
}
