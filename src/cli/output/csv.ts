import { stringify } from 'csv-stringify/sync';
import { cellText, isNumber } from '../fields/field.ts';
import type { Console } from './console.ts';
import { sanitizeForTerminal } from './sanitize.ts';

/** The number of cells that are written at a time, because all rows together can need gigabytes. */
const PART_CELLS = 20_000;

/** Writes rows as CSV. `subject` names what a row describes, such as `an order`, in a note about text that is replaced. */
export async function writeCsv(
  console: Console,
  rows: Iterable<readonly unknown[]>,
  subject: string,
): Promise<void> {
  const shownCell = (value: unknown) => (isNumber(value) ? value : sanitizeForTerminal(cellText(value)));
  for (const part of partsOf(rows)) {
    const text = renderCsv(console.isTerminal ? part.map((row) => row.map(shownCell)) : part);
    if (/[\ud800-\udfff]/u.test(text))
      console.noticeOnce(
        `${subject} has text that is not valid Unicode (half of a surrogate pair), which CSV cannot contain; it was replaced by U+FFFD. For the exact text: --json`,
      );
    await console.write(text);
  }
}

function* partsOf<Row extends readonly unknown[]>(rows: Iterable<Row>): Generator<Row[]> {
  let part: Row[] = [];
  let cells = 0;
  for (const row of rows) {
    part.push(row);
    cells += row.length;
    if (cells < PART_CELLS) continue;
    yield part;
    part = [];
    cells = 0;
  }
  if (part.length > 0) yield part;
}

/**
 * Formats rows as CSV (RFC 4180). Text that a spreadsheet would run as a formula gets a leading `'`. In a single column,
 * an empty cell is `""`, because many readers skip blank lines.
 */
export function renderCsv(rows: readonly (readonly unknown[])[]): string {
  return stringify(
    rows.map((row) => row.map((cell) => (typeof cell === 'string' ? escapeFormula(cell) : cellText(cell)))),
    // With CRLF as the record delimiter, csv-stringify does not quote a lone CR or LF, but many readers end a record
    // there.
    { record_delimiter: 'windows', quoted_match: /[\r\n]/, quoted_empty: rows[0]?.length === 1 },
  );
}

/** Matches a formula, and a formula that already has a leading `'`, so that `unescapeFormula` restores every text. */
const FORMULA = /^'*[=+\-@\t\r]/;

const escapeFormula = (text: string): string => (FORMULA.test(text) ? `'${text}` : text);

/** Reverses the escaping of a cell by `renderCsv`. */
export const unescapeFormula = (cell: string): string =>
  cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell;
