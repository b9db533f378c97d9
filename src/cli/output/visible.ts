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
  // Each is made here and not at the start of every command: a class of Unicode takes a millisecond.
  const candidates =
    /\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{3,6}\u{e007f}|[\p{C}\p{Zl}\p{Zp}\p{M}\p{Default_Ignorable_Code_Point}]/gu;
  return text.replace(candidates, (match, index: number) => {
    // A flag of a part of a country is a black flag with its code in tags. Tags elsewhere are text that nobody sees.
    const isFlag = match.startsWith('\u{1f3f4}');
    return isFlag || isSeen(match, Array.from(text.slice(Math.max(0, index - LONGEST_PILE), index)))
      ? match
      : write(match);
  });
}

/** Whether a character is seen, or belongs to the one before it as its writing system or an emoji wants it. */
function isSeen(char: string, before: readonly string[]): boolean {
  // Looked at by itself: V8 of Node 26 finds no emoji with a class in front of `$`.
  const last = before.at(-1) ?? '';
  // Private characters and those newer than this program; a half of a pair or no character at all is none.
  if (/[\p{Co}\p{Cn}]/u.test(char))
    return !/[\p{Noncharacter_Code_Point}\p{Default_Ignorable_Code_Point}]/u.test(char);
  // A joiner or a non-joiner behind a letter of a script without capitals (Persian, the Indic ones), a mark or an emoji.
  if (/[\u200c\u200d]/.test(char))
    return /^[\p{Lo}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}]/u.test(last);
  // One selector behind a character that has variants: symbols, digits of keycaps, ideographs, Mongolian.
  if (/\p{Variation_Selector}/u.test(char)) return /^[\d#*\p{S}\p{P}\p{Lo}\u2139]/u.test(last);
  // Controls, format characters (bidirectional ones, U+200B, the byte order mark, the soft hyphen, U+FFF9 to U+FFFB,
  // tags), separators of lines, and what is drawn as nothing, as the Hangul fillers.
  if (!/\p{M}/u.test(char) || /\p{Default_Ignorable_Code_Point}/u.test(char)) return false;
  // A mark without a character to stand on takes the neighbouring cell's; a pile of them is drawn over the lines around
  // it, and no language piles up more than a few.
  const pile = before.slice(-HIGHEST_PILE);
  const isPiled = pile.length === HIGHEST_PILE && pile.every((each) => /[\p{M}\u200c\u200d]/u.test(each));
  return /^[^\p{Z}\p{Cc}]/u.test(last) && !isPiled;
}

const HIGHEST_PILE = 8;
/** In UTF-16, with a half of a pair cut off before it. */
const LONGEST_PILE = 2 * HIGHEST_PILE + 1;

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0');

function escapeOf(code: number): string {
  if (code < 0x100) return `\\x${hex(code, 2)}`;
  return code < 0x1_0000 ? `\\u${hex(code, 4)}` : `\\u{${hex(code, 5)}}`;
}
