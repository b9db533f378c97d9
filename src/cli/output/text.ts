/** Makes text safe to print on a terminal: escapes control characters and invisible characters, for example as `\x1b`. */
export function sanitizeForTerminal(text: string): string {
  return replaceInvisible(text, (char) => NAMED_ESCAPES[char] ?? escapeChar(char.codePointAt(0) ?? 0));
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

const NAMED_ESCAPES: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

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

// Parts of messages: counts, lists of names, cut texts, masked keys, command lines. Tables measure text exactly (table.ts).

/** A number with its noun, such as `1 row` or `3 rows`. */
export const formatCount = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? '' : 's'}`;

const MAX_NAME_LENGTH = 24;

/** Joins names for a message: `id, status`. Names after the first `most` are only counted: `and 3 more`. */
export function listNames(names: readonly string[], most = 8): string {
  const shown = names.slice(0, most).map((name) => cut(sanitizeForTerminal(name), MAX_NAME_LENGTH));
  const others = names.length - shown.length;
  return shown.join(', ') + (others > 0 ? ` and ${others} more` : '');
}

/** Cuts a text to at most `length` characters. A cut text ends with an ellipsis. */
export function cut(text: string, length: number): string {
  const characters = [...text.slice(0, 2 * length + 2)];
  return characters.length <= length ? text : `${characters.slice(0, length - 1).join('')}…`;
}

/** The forms of a text in output: unchanged, in JSON and in quotes for a POSIX shell, each also with escapes for a terminal. */
function writtenForms(text: string): string[] {
  const forms = [text, JSON.stringify(text).slice(1, -1), text.replaceAll("'", `'\\''`)];
  return forms.flatMap((form) => [form, sanitizeForTerminal(form)]);
}

/** Masks an API key. The last 4 characters are shown if the key has more than 8. */
export const maskKey = (key: string): string => `…${key.length > 8 ? key.slice(-4) : ''}`;

/** A key with fewer characters could be part of an ordinary word, so it is masked only if it is a word of its own. */
const MIN_KEY_LENGTH = 6;

/** Returns a function that masks an API key in a text, also if a service has sent it back URL-encoded or escaped. */
export function createRedactor(key: string): (text: string) => string {
  if (key === '') return (text) => text;
  // Longer forms come first, because a shorter form may be a prefix of a longer one.
  const forms = [encodeURIComponent(key), ...writtenForms(key)].sort((a, b) => b.length - a.length);
  const pattern = forms.map((form) => form.replace(/[^\w\s]/g, '\\$&')).join('|');
  const isWord = key.length < MIN_KEY_LENGTH;
  // The case is ignored, because a service may send the key in the name of a header, which is printed in lower case.
  const any = new RegExp(isWord ? `(?<!\\w)(?:${pattern})(?!\\w)` : pattern, 'gi');
  const masked = maskKey(key);
  return (text) => text.replace(any, () => masked);
}

/** Matches words that get no quotes. On Windows a backslash separates directories; elsewhere it escapes the next character. */
const SHELL_SAFE = { posix: /^[\w@%+=:,./-]+$/, windows: /^[\w@%+=:,./\\-]+$/ };

/** cmd supports only double quotes. Inside double quotes, PowerShell reads `""` as one quote. */
const quote = (text: string, isWindows: boolean): string =>
  isWindows ? `"${text.replaceAll('"', '""')}"` : `'${text.replaceAll("'", `'\\''`)}'`;

/** A command line that can be pasted into a shell: POSIX, or PowerShell and cmd on Windows. */
export function shellQuote(words: readonly string[], platform: NodeJS.Platform): string {
  const isWindows = platform === 'win32';
  const plain = isWindows ? SHELL_SAFE.windows : SHELL_SAFE.posix;
  return words.map((word) => (plain.test(word) ? word : quote(word, isWindows))).join(' ');
}
