import { stringify } from 'csv-stringify/sync';
import { cellText, isNumber } from '../core/values.ts';
import type { Console } from './console.ts';
import { sanitizeForTerminal } from './text.ts';

type Target = Pick<Console, 'format' | 'isTerminal' | 'hasDecimalComma'>;

/**
 * Formats rows as CSV (RFC 4180), or for a `.tsv` file with tabs. Text that a spreadsheet would run as a formula gets a
 * leading `'`. In a single column, an empty cell is `""`, because many readers skip blank lines.
 *
 * For Excel, the user's locale decides: if it writes decimals with a comma, Excel expects semicolons between the cells.
 */
export function toCsv(
  rows: readonly (readonly unknown[])[],
  { format, isTerminal, hasDecimalComma }: Target,
): string {
  const isLocal = format === 'excel' && hasDecimalComma();
  const cellOf = (value: unknown): string => {
    if (isNumber(value)) return isLocal ? cellText(value).replace('.', ',') : cellText(value);
    const text = isTerminal ? sanitizeForTerminal(cellText(value)) : cellText(value);
    return typeof value === 'string' && FORMULA.test(text) ? `'${text}` : text;
  };
  return stringify(
    rows.map((row) => row.map(cellOf)),
    {
      delimiter: format === 'tsv' ? '\t' : isLocal ? ';' : ',',
      record_delimiter: format === 'tsv' ? 'unix' : 'windows',
      // Many readers end a record at any CR or LF. By default, a CR or LF is quoted only as the record delimiter.
      quoted_match: /[\r\n]/,
      quoted_empty: rows[0]?.length === 1,
    },
  );
}

/** Matches a formula, and a formula that already has a leading `'`, so that `unescapeFormula` restores every text. */
const FORMULA = /^'*[=+\-@\t\r]/;

/** Removes the `'` that `toCsv` puts before a formula. */
export const unescapeFormula = (cell: string): string =>
  cell.startsWith("'") && FORMULA.test(cell) ? cell.slice(1) : cell;
