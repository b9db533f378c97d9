import { sanitizeForTerminal } from './sanitize.ts';

// Counts, lists of names and short texts in messages. Tables measure text exactly, in table.ts.

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

const BAR_COLUMNS = 16;

/** Draws a progress bar, such as `[####------------]`. */
export const drawBar = (done: number, total: number): string =>
  `[${'#'.repeat(total === 0 ? BAR_COLUMNS : (done / total) * BAR_COLUMNS).padEnd(BAR_COLUMNS, '-')}]`;

/** Cuts a text to at most `length` characters. A cut text ends with an ellipsis. */
export function cut(text: string, length: number): string {
  const characters = [...text.slice(0, 2 * length + 2)];
  return characters.length <= length ? text : `${characters.slice(0, length - 1).join('')}…`;
}
