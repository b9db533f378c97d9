import { quoteIfBlank, sanitizeForTerminal } from './sanitize.ts';

// Messages: counts, lists of names, and lines that fit the terminal. Tables measure text exactly, in table.ts.

/** A number with its noun, such as `1 row` or `3 rows`. */
export const formatCount = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? '' : 's'}`;

/** How many names `listNames` lists. */
export const MAX_LISTED_NAMES = 8;
/** The maximum width of such a name, in terminal columns. */
const MAX_NAME_WIDTH = 24;

/** Joins names for a message: `id, status`. Names after the first `most` are only counted: `and 3 more`. */
export function listNames(names: readonly string[], most = MAX_LISTED_NAMES): string {
  const shown = names
    .slice(0, most)
    .map((name) => cutToWidth(quoteIfBlank(sanitizeForTerminal(name)), MAX_NAME_WIDTH));
  const others = names.length - shown.length;
  return shown.join(', ') + (others > 0 ? ` and ${others} more` : '');
}

const BAR_COLUMNS = 16;

/** Draws a progress bar, such as `[####------------]`. */
export const drawBar = (done: number, total: number): string =>
  `[${'#'.repeat(total === 0 ? BAR_COLUMNS : (done / total) * BAR_COLUMNS).padEnd(BAR_COLUMNS, '-')}]`;

const COLOR = /\x1b\[[\d;]*m/g;

/**
 * The most terminal columns that a text can take, without its colors. Characters other than ASCII, Latin, common
 * punctuation and arrows count as two, because loading the exact widths takes longer than a message is worth.
 */
export const widthOf = (text: string): number =>
  text.replace(COLOR, '').replace(/[^\0-\u02ff\u2010-\u2027\u2190-\u21ff]/gu, 'xx').length;

/** Cuts a text to a maximum width. A cut text ends with an ellipsis. */
export function cutToWidth(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let width = 1;
  let kept = '';
  for (const char of text) {
    width += widthOf(char);
    if (width > columns) break;
    kept += char;
  }
  return columns < 1 ? '' : `${kept}…`;
}

/** Matches a command in a message. `wrapText` keeps a command on one line, so that it can be copied. */
const COMMAND =
  /\bpets [a-z]+(?: [\w.-]+(?= [-<]))?(?: (?:--?[\w-]+(?:[ =][^\s;,.]+)?|<[^>]+>|"[^"]*"|\d+))*/g;

const NO_BREAK_SPACE = '\u00a0';

/**
 * Wraps each line of a text between words, but not inside commands. Continuation lines are indented. A word that is
 * longer than a line, such as a path, stays whole on its own line.
 */
export function wrapText(text: string, columns: number, indent: number): string {
  const kept = text.replace(COMMAND, (command) => command.replaceAll(' ', NO_BREAK_SPACE));
  return kept
    .split('\n')
    .flatMap((line) => wrapLine(line, columns, indent))
    .join('\n')
    .replaceAll(NO_BREAK_SPACE, ' ');
}

function wrapLine(text: string, columns: number, indent: number): string[] {
  const margin = /^ */.exec(text)?.[0] ?? '';
  const [first = '', ...words] = text.split(/ +/).filter(Boolean);
  const lines: string[] = [];
  let line = margin + first;
  for (const word of words) {
    if (widthOf(line) + 1 + widthOf(word) <= columns) line += ` ${word}`;
    else {
      lines.push(line);
      line = ' '.repeat(indent) + word;
    }
  }
  return [...lines, line];
}
