import { parseInt64 } from '../../contract/int64.ts';
import { petStatuses } from '../../contract/schemas.ts';
import { unescapeFormula } from '../output/csv.ts';
import { parseCsvHeader } from './csv-header.ts';
import { type CsvRecord, csvRecords } from './csv-records.ts';
import type { RawRow } from './row.ts';
import { excerpt } from './row-errors.ts';

/** The rows below the header. An error in the header ends the reading. */
export function* csvRows(text: Buffer): Generator<RawRow> {
  let columns: string[] | undefined;
  const records = csvRecords(text);
  for (const record of records) {
    if ('error' in record) yield record;
    else if (columns !== undefined) yield toRow(columns, record);
    else {
      const header = parseCsvHeader(record, records);
      if ('error' in header) return yield { line: record.line, ...header };
      columns = header.columns;
    }
  }
}

function toRow(columns: readonly string[], { line, cells, delimiter }: CsvRecord): RawRow {
  if (cells.length !== columns.length) {
    const expected = `expected ${columns.length} columns`;
    const error = `${expected}, found ${cells.length}: ${excerpt(cells.join(delimiter))}`;
    return { line, error, kind: `${expected}, found more or fewer` };
  }
  const fields: [string, unknown][] = [];
  for (let i = 0; i < columns.length; i++) {
    const [name = '', cell = ''] = [columns[i], cells[i]];
    if (name === 'name') fields.push([name, unescapeFormula(cell)]);
    else if (cell.trim() !== '')
      fields.push([name, name === 'status' ? parseStatus(cell) : parseNumber(cell)]);
  }
  // `fromEntries` also sets a column called __proto__ as an own property.
  return { line, value: Object.fromEntries(fields), format: 'csv' };
}

/** Accepts a status in any case. Other text is kept for the error message. */
function parseStatus(cell: string): string {
  const status = cell.trim().toLowerCase();
  return petStatuses.find((known) => known === status) ?? cell;
}

const parseNumber = (cell: string): bigint | string => parseInt64(cell.trim()) ?? cell;
