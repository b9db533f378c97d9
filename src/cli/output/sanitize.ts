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

/** Formats a line of tab-separated output, in which backslashes are escaped too, so that every text can be restored. */
export const tsvLine = (cells: readonly string[]): string =>
  `${cells.map((text) => sanitizeForTerminal(text.replaceAll('\\', '\\\\'))).join('\t')}\n`;

/** Matches a text of visible ASCII and Latin characters, which needs no escapes. Most texts match. */
const PLAIN = /^[ -~\xa1-\xac\xae-\u02ff]*$/;

const NAMED: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function replaceInvisible(text: string, escapeWith: (char: string) => string): string {
  if (PLAIN.test(text)) return text;
  // Joiners and variation selectors stay, because emoji and many scripts need them, and so do the flags of regions, which
  // consist of a black flag and tags. The expression is created here, because compiling it takes a millisecond.
  const candidates =
    /\u{1f3f4}[\u{e0030}-\u{e007a}]{3,6}\u{e007f}|(?!\u200c|\u200d|\p{Variation_Selector})[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]/gu;
  return text.replace(candidates, (match) => (match.startsWith('\u{1f3f4}') ? match : escapeWith(match)));
}

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0');

function escapeChar(code: number): string {
  if (code < 0x100) return `\\x${hex(code, 2)}`;
  return code < 0x1_0000 ? `\\u${hex(code, 4)}` : `\\u{${hex(code, 5)}}`;
}
