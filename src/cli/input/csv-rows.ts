import { parseInt64 } from '../../contract/int64.ts';
import { unguard } from '../output/csv.ts';
import { csvRecords } from './csv-records.ts';
import type { ReadRow } from './read-row.ts';

/**
 * The rows below a header, whose columns may stand in any order. A header without `name` or `categoryId`, or with a
 * column twice, is a fault that ends the reading: every row below would be another.
 */
export async function* csvRows(texts: AsyncGenerator<string>): AsyncGenerator<ReadRow> {
  let columns: string[] | undefined;
  for await (const record of csvRecords(texts)) {
    if ('fault' in record) yield record;
    else if (columns !== undefined) yield rowOf(columns, record);
    else {
      columns = record.cells.map(columnOf);
      const doubled = doubledOf(columns);
      if (doubled !== undefined)
        return yield { line: record.line, fault: `the column ${doubled} stands twice` };
      const missing = ['name', 'categoryId'].filter((name) => !columns?.includes(name));
      if (missing.length > 0)
        return yield { line: record.line, fault: `there is no column ${missing.join(', and no ')}` };
    }
  }
}

/** The field that a column's header means; of a column that no animal has, its header. */
function columnOf(header: string): string {
  const name = header.trim();
  switch (name.toLowerCase()) {
    case 'category':
    case 'category_id':
    case 'categoryid':
      return 'categoryId';
    case 'id':
    case 'name':
    case 'status':
      return name.toLowerCase();
    default:
      return name;
  }
}

function doubledOf(columns: readonly string[]): string | undefined {
  // Spreadsheets write columns without a header, and mostly without cells, behind the others.
  const names = columns.filter((name) => name !== '').map((name) => name.toLowerCase());
  const at = names.findIndex((name, i) => names.indexOf(name) < i);
  return columns.filter((name) => name !== '')[at];
}

function rowOf(
  columns: readonly string[],
  { line, cells }: { line: number; cells: readonly string[] },
): ReadRow {
  if (cells.length !== columns.length)
    return { line, fault: `the header has ${columns.length} columns, and this row ${cells.length}` };
  const fields: [string, unknown][] = [];
  for (const [i, name] of columns.entries()) {
    const cell = cells[i] ?? '';
    if (name === 'name') fields.push([name, unguard(cell)]);
    else if (cell !== '') fields.push([name, name === 'status' ? cell : (parseInt64(cell) ?? cell)]);
  }
  // A column may be called __proto__, too: here that is a field like others.
  return { line, value: Object.fromEntries(fields) };
}
