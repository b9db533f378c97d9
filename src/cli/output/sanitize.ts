/**
 * Makes text from a server or a file safe to print on a terminal: control characters and invisible characters are
 * escaped, for example as `\x1b`.
 */
export function sanitizeForTerminal(text: string): string {
  return replaceInvisible(text, (char) => NAMED[char] ?? escapeChar(char.codePointAt(0) ?? 0));
}

/** Makes JSON text safe to print on a terminal. The escapes are those of JSON, so that the value stays the same. */
export function sanitizeJson(text: string): string {
  return replaceInvisible(text, (char) =>
    char === '\n'
      ? char
      : char
          .split('')
          .map((unit) => `\\u${hex(unit.charCodeAt(0), 4)}`)
          .join(''),
  );
}

/**
 * Formats a field of tab-separated output. Escapes backslashes, tabs, line ends and other characters that control a
 * terminal, and lone surrogates, which UTF-8 cannot encode.
 */
function tsvField(text: string): string {
  return text
    .replaceAll('\\', '\\\\')
    .replace(CONTROL, (char) => NAMED[char] ?? escapeChar(char.charCodeAt(0)));
}

export const tsvLine = (cells: readonly string[]): string => `${cells.map(tsvField).join('\t')}\n`;

/** Puts a text in quotes if it is empty or only spaces. */
export const quoteIfBlank = (text: string): string => (/^[\p{Zs}\u2800]*$/u.test(text) ? `"${text}"` : text);

// Matches C0 and C1 controls, DEL, bidirectional controls, line and paragraph separators, and lone surrogates.
const CONTROL = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/gu;

/** Matches a text of visible ASCII and Latin characters, which needs no escapes. Most texts match. */
const PLAIN = /^[ -~\xa1-\xac\xae-\u02ff]*$/;

const NAMED: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function replaceInvisible(text: string, escapeWith: (char: string) => string): string {
  if (PLAIN.test(text)) return text;
  // The expression is created here and not at start-up, because compiling a Unicode class takes a millisecond.
  const candidates =
    /\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{3,6}\u{e007f}|[\p{C}\p{Zl}\p{Zp}\p{M}\p{Default_Ignorable_Code_Point}]/gu;
  return text.replace(candidates, (match, index: number) => {
    // A regional flag is a black flag followed by tag characters. Elsewhere, tag characters are invisible.
    const isFlag = match.startsWith('\u{1f3f4}');
    const before = Array.from(text.slice(Math.max(0, index - LOOK_BACK), index));
    return isFlag || isVisible(match, before) ? match : escapeWith(match);
  });
}

/** Whether a character is visible, or modifies the character before it in a valid way. */
function isVisible(char: string, before: readonly string[]): boolean {
  const last = before.at(-1) ?? '';
  // Private-use characters are visible. Unassigned ones may be visible in newer Unicode versions, noncharacters never.
  if (/[\p{Co}\p{Cn}]/u.test(char))
    return !/[\p{Noncharacter_Code_Point}\p{Default_Ignorable_Code_Point}]/u.test(char);
  // A joiner or non-joiner is valid after a letter of a script without case (such as Arabic), a mark or an emoji.
  if (/[\u200c\u200d]/.test(char))
    return /^[\p{Lo}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}]/u.test(last);
  // A variation selector is valid after a symbol, punctuation, a digit, or a letter without case. These letters include
  // ideographs and Mongolian letters.
  if (/\p{Variation_Selector}/u.test(char)) return /^[\d#*\p{S}\p{P}\p{Lo}\u2139]/u.test(last);
  // All other candidates that are not marks are invisible. So are marks without a glyph, such as grapheme joiners.
  if (!/\p{M}/u.test(char) || /\p{Default_Ignorable_Code_Point}/u.test(char)) return false;
  // A combining mark without a base character would change the neighboring cell, and a long stack of marks would cover
  // other lines.
  const stack = before.slice(-MAX_MARKS);
  const isStacked = stack.length === MAX_MARKS && stack.every((each) => /[\p{M}\u200c\u200d]/u.test(each));
  return /^[^\p{Z}\p{Cc}]/u.test(last) && !isStacked;
}

/** The most combining marks on one character. No language needs more. */
const MAX_MARKS = 8;

/** How much text before a character is examined, in UTF-16 units. That text may start with half a surrogate pair. */
const LOOK_BACK = 2 * MAX_MARKS + 1;

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0');

function escapeChar(code: number): string {
  if (code < 0x100) return `\\x${hex(code, 2)}`;
  return code < 0x1_0000 ? `\\u${hex(code, 4)}` : `\\u{${hex(code, 5)}}`;
}
