import { eastAsianWidth } from 'get-east-asian-width';

// Latin, Greek, Cyrillic, punctuation and arrows: a column each, and none joins with its neighbour. Most texts are
// nothing else, and need neither the segmenter (10 ms to make the first one) nor a look-up.
const PLAIN = /^[ -~\xa1-\xac\xae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2190-\u21ff]*$/;

/** The console's own colours take no room. */
const COLOUR = /\x1b\[[\d;]*m/g;

const ELLIPSIS = '…';

/**
 * How many columns a text takes on a terminal, by Unicode: two for an emoji, however many characters it is joined of,
 * and for a wide character; none for a mark, a joiner, or a colour. The text has been made visible before.
 */
export function displayWidth(text: string): number {
  const shown = text.includes('\x1b') ? text.replace(COLOUR, '') : text;
  if (PLAIN.test(shown)) return shown.length;
  let width = 0;
  for (const { segment } of new Intl.Segmenter().segment(shown)) width += graphemeWidth(segment);
  return width;
}

/** The text, or as much of it as goes before an ellipsis into so many columns; a grapheme is whole or not there. */
export const cutToWidth = (text: string, columns: number): string => measureAndCut(text, columns).text;

/** The same, and the columns that it then takes. */
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

/**
 * The lines of a paragraph, broken between words; each but the first is indented by so many columns. A word that is
 * longer than a line (an address, a path, a command) has a line for itself and stays whole, so that it can be copied.
 */
export function wrapToWidth(text: string, columns: number, indent = 0): string[] {
  const margin = /^ */.exec(text)?.[0] ?? '';
  const lines: string[] = [];
  let line = margin;
  let width = margin.length;
  let isEmpty = true;
  for (const word of text.split(/ +/).filter(Boolean)) {
    const wordWidth = displayWidth(word);
    if (!isEmpty && width + 1 + wordWidth > columns) {
      lines.push(line);
      line = ' '.repeat(indent);
      width = indent;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    width += isEmpty ? wordWidth : 1 + wordWidth;
    isEmpty = false;
  }
  return [...lines, line];
}

// Characters that are drawn as an emoji with one of these behind them: the selector, a skin colour, another joined on.
const MADE_EMOJI =
  /^\p{Extended_Pictographic}.*?(?:[\ufe0f\u{1f3fb}-\u{1f3ff}]|\u200d\p{Extended_Pictographic})/su;
const FLAG_OR_KEYCAP = /^(?:\p{Regional_Indicator}{2}|[\d#*]\ufe0f?\u20e3)$/u;
const NO_WIDTH = /[\p{Mn}\p{Me}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/u;

/** In UTF-16; a longer row of emoji with joiners is drawn one by one. */
const LONGEST_EMOJI = 20;

// The vowels and the endings of a Korean syllable that is written in its parts are drawn into the first part.
const JAMO = /[\u1160-\u11ff\ud7b0-\ud7fb]/;

function graphemeWidth(grapheme: string): number {
  if (PLAIN.test(grapheme)) return grapheme.length;
  if (grapheme.length <= LONGEST_EMOJI && (MADE_EMOJI.test(grapheme) || FLAG_OR_KEYCAP.test(grapheme)))
    return 2;
  let width = 0;
  for (const char of grapheme) {
    const hasNone = NO_WIDTH.test(char) || (width > 0 && JAMO.test(char));
    if (!hasNone) width += eastAsianWidth(char.codePointAt(0) ?? 0);
  }
  return width;
}
