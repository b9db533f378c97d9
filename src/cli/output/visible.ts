// C0 and C1 controls, DEL, the bidirectional controls, line and paragraph separators.
const UNSAFE = /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

const NAMED: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Text from a server or a file, safe for a terminal: what would steer it is written out, as `\x1b` or `\u202e`. */
export function visible(text: string): string {
  return text.replace(UNSAFE, (char) => NAMED[char] ?? escapeOf(char.charCodeAt(0)));
}

/** A JSON text that is shown on a terminal: the same document, with what would steer the terminal escaped. */
export function visibleJson(text: string): string {
  return text.replace(UNSAFE, (char) =>
    char === '\n' ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** A field of tab-separated output: a tab, a newline or a backslash cannot be taken for a separator or an escape. */
export function tabSeparated(text: string): string {
  return visible(text.replaceAll('\\', '\\\\'));
}

/** A line of such fields. */
export const tabSeparatedLine = (cells: readonly string[]): string =>
  `${cells.map(tabSeparated).join('\t')}\n`;

function escapeOf(code: number): string {
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, '0')}`
    : `\\u${code.toString(16).padStart(4, '0')}`;
}
