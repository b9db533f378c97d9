import { stringify } from 'csv-stringify/sync';
import { cellText } from './pets.ts';

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
