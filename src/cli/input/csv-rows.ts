import { parseInt64 } from '../../contract/int64.ts';
import { petStatuses } from '../../contract/schemas.ts';
import { unguard } from '../output/csv.ts';
import { readHeader } from './csv-header.ts';
import { type CsvRecord, csvRecords } from './csv-records.ts';
import type { ReadRow } from './read-row.ts';
import { shorten } from './row-faults.ts';

/** The rows below a header. A fault of the header ends the reading: every row below would be another. */
export async function* csvRows(texts: AsyncGenerator<string>): AsyncGenerator<ReadRow> {
  let columns: string[] | undefined;
  const records = csvRecords(texts);
  for await (const record of records) {
    if ('fault' in record) yield record;
    else if (columns !== undefined) yield rowOf(columns, record);
    else {
      const header = await readHeader(record, records);
      if ('fault' in header) return yield { line: record.line, fault: header.fault };
      columns = header.columns;
    }
  }
}

function rowOf(columns: readonly string[], { line, cells, delimiter }: CsvRecord): ReadRow {
  if (cells.length !== columns.length) {
    const kind = `the header has ${columns.length} columns, and this row`;
    const fault = `${kind} ${cells.length}: ${shorten(cells.join(delimiter))}`;
    return { line, fault, kind: `${kind} more or less` };
  }
  const fields: [string, unknown][] = [];
  for (let i = 0; i < columns.length; i++) {
    const [name = '', cell = ''] = [columns[i], cells[i]];
    if (name === 'name') fields.push([name, unguard(cell)]);
    else if (cell.trim() !== '') fields.push([name, name === 'status' ? statusOf(cell) : numberOf(cell)]);
  }
  // A column may be called __proto__, too: here that is a field like others.
  return { line, value: Object.fromEntries(fields), form: 'csv' };
}

/** People write `Available`; a cell that is no status stays as it is, and is told so. */
function statusOf(cell: string): string {
  const status = cell.trim().toLowerCase();
  return petStatuses.find((known) => known === status) ?? cell;
}

const numberOf = (cell: string): bigint | string => parseInt64(cell.trim()) ?? cell;
