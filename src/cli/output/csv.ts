import { stringify } from 'csv-stringify/sync';
import { cellText, isNumber } from '../fields/field.ts';
import type { Console } from './console.ts';
import { sanitizeForTerminal } from './sanitize.ts';

/** Writes rows as CSV. `subject` names what a row describes, such as `an order`, in a note about text that is replaced. */
export async function writeCsv(
  console: Console,
  rows: readonly (readonly unknown[])[],
  subject: string,
): Promise<void> {
  const shownCell = (value: unknown) => (isNumber(value) ? value : sanitizeForTerminal(cellText(value)));
  const text = renderCsv(console.isTerminal ? rows.map((row) => row.map(shownCell)) : rows);
  if (/[\ud800-\udfff]/u.test(text))
    console.noticeOnce(
      `${subject} has text that is not valid Unicode (half of a surrogate pair), which CSV cannot contain; it was replaced by U+FFFD. For the exact text: --json`,
    );
  await console.write(text);
}

/** Formats rows as CSV (RFC 4180). Text that a spreadsheet would run as a formula gets a leading `'`. */
export function renderCsv(rows: readonly (readonly unknown[])[]): string {
  return stringify(
    rows.map((row) => row.map((cell) => (typeof cell === 'string' ? escapeFormula(cell) : cellText(cell)))),
    // With CRLF as the record delimiter, csv-stringify does not quote a lone CR or LF, but many readers end a record
    // there.
    { record_delimiter: 'windows', quoted_match: /[\r\n]/ },
  );
}

/** Matches a formula, and a formula that already has a leading `'`, so that `unescapeFormula` restores every text. */
const FORMULA = /^'*[=+\-@\t\r]/;

const escapeFormula = (text: string): string => (FORMULA.test(text) ? `'${text}` : text);

/** Reverses the escaping of a cell by `renderCsv`. */
export const unescapeFormula = (cell: string): string =>
  cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell;
