import { stringify } from 'csv-stringify/sync';

/** RFC 4180, and safe to open in a spreadsheet: a text cell that it would take for a formula gets a leading `'`. */
export function renderCsv(rows: readonly (readonly (string | bigint)[])[]): string {
  return stringify(
    rows.map((row) => row.map((cell) => (typeof cell === 'string' ? guard(cell) : cell.toString()))),
    // It quotes of itself only what holds its own CRLF; a lone CR or LF ends a record for other readers.
    { record_delimiter: 'windows', quoted_match: /[\r\n]/ },
  );
}

const FORMULA = /^'*[=+\-@\t\r]/;

/** Quotes of the guard's own kind are guarded too, so that taking one off again gives back every text. */
const guard = (text: string): string => (FORMULA.test(text) ? `'${text}` : text);

/** Takes the guard off a cell that `renderCsv` wrote. */
export const unguard = (cell: string): string =>
  cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell;
