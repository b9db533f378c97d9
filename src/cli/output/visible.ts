/** Text from a server or a file, safe for a terminal: what would steer it, or not be seen, is written out, as `\x1b`. */
export function visible(text: string): string {
  return replaceUnseen(text, (char) => NAMED[char] ?? escapeOf(char.codePointAt(0) ?? 0));
}

/** A JSON text that is shown on a terminal: the same document, with what `visible` writes out escaped. */
export function visibleJson(text: string): string {
  return replaceUnseen(text, (char) =>
    char === '\n'
      ? char
      : char
          .split('')
          .map((unit) => `\\u${hex(unit.charCodeAt(0), 4)}`)
          .join(''),
  );
}

/**
 * A field of tab-separated output: a tab, a newline or a backslash cannot be taken for a separator or an escape. Programs
 * read it, so no more is written out than what steers a terminal.
 */
export function tabSeparated(text: string): string {
  return text
    .replaceAll('\\', '\\\\')
    .replace(STEERING, (char) => NAMED[char] ?? escapeOf(char.charCodeAt(0)));
}

/** A line of such fields. */
export const tabSeparatedLine = (cells: readonly string[]): string =>
  `${cells.map(tabSeparated).join('\t')}\n`;

/** A text of which nothing would be seen, in quotes; any other as it is. */
export const quoteBlank = (text: string): string => (/^[\p{Zs}\u2800]*$/u.test(text) ? `"${text}"` : text);

// C0 and C1 controls, DEL, the bidirectional controls, line and paragraph separators.
const STEERING = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** ASCII and Latin: most texts are nothing else. */
const PLAIN = /^[ -~\xa1-\xac\xae-\u02ff]*$/;

const NAMED: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function replaceUnseen(text: string, write: (char: string) => string): string {
  if (PLAIN.test(text)) return text;
  // Made here and not at the start of every command: a class of Unicode takes a millisecond.
  const keptOrUnseen = new RegExp(`${KEPT.join('|')}|(?<unseen>${UNSEEN.join('|')})`, 'gu');
  return text.replace(keptOrUnseen, (match, unseen: string | undefined) => (unseen ? write(unseen) : match));
}

/** What belongs to a writing system or an emoji, and is not seen by itself. */
const KEPT = [
  // A flag of a part of a country: a black flag and its code in tags. Tags elsewhere are text that nobody sees.
  String.raw`\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{3,6}\u{e007f}`,
  // A joiner or a non-joiner behind a letter of a script without capitals (Persian, the Indic ones), a mark or an emoji.
  String.raw`(?<=[\p{Lo}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}])[\u200c\u200d]`,
  // One variation selector behind a character that has variants: symbols, digits of keycaps, ideographs, Mongolian.
  String.raw`(?<=[\d#*\p{S}\p{P}\p{Lo}\u2139])\p{Variation_Selector}`,
];

const UNSEEN = [
  // Controls, format characters (bidirectional ones, U+200B, the byte order mark, the soft hyphen, U+FFF9 to U+FFFB, tags),
  // halves of pairs, separators of lines, and what is drawn as nothing (Hangul fillers, selectors too many).
  String.raw`[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]`,
  // A mark that has no character of its own to stand on takes the neighbouring cell's.
  String.raw`(?<![^\p{Z}\p{Cc}])\p{M}`,
  // No language piles up more than a few marks; a pile of them is drawn over the lines around it.
  String.raw`(?<=[\p{M}\u200c\u200d]{8})\p{M}`,
];

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0');

function escapeOf(code: number): string {
  if (code < 0x100) return `\\x${hex(code, 2)}`;
  return code < 0x1_0000 ? `\\u${hex(code, 4)}` : `\\u{${hex(code, 5)}}`;
}
