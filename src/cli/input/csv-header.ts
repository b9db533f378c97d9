import { visible } from '../output/visible.ts';
import { cutToWidth } from '../output/width.ts';
import type { CsvRecord } from './csv-records.ts';
import { columnName } from './row-faults.ts';

/** Which field of an animal each column is; or why there is no telling. */
export type Header = { columns: string[] } | { fault: string };

const NEEDED = ['name', 'categoryId'];

/** Titles and empty rows that people leave above the header: so many records are looked through for it. */
const RECORDS_ABOVE = 10;

/** The columns that are listed take no more room than this on a terminal. */
const MAX_WIDTH = 100;

/**
 * Reads the first record of a file. Where that is no header, records are taken of `rest` to find it below.
 *
 * A header has a column `name`, a column `category`, and none twice; their order and capitals are as they like.
 */
export async function readHeader(
  { cells, delimiter }: CsvRecord,
  rest: AsyncIterator<CsvRecord | { fault: string }>,
): Promise<Header> {
  const columns = cells.map(fieldOf);
  const doubled = doubledOf(cells, columns);
  if (doubled !== undefined) return { fault: doubled };
  const missing = NEEDED.filter((field) => !columns.includes(field)).map(columnName);
  if (missing.length === 0) return { columns };
  const below = await lineOfHeader(rest);
  if (below !== undefined) {
    return { fault: `is not the header, which stands in line ${below}: remove what is above it` };
  }
  const shown = listed(titles(cells));
  if (!columns.some((column) => FIELDS.has(column))) return { fault: noColumn(shown, delimiter) };
  const which = `${missing.length === 1 ? 'one is' : 'two are'} missing, ${missing.join(' and ')}`;
  return { fault: `has the columns ${shown}: ${which} (needed: name, category; optional: status)` };
}

const FIELDS = new Set(['id', 'name', 'categoryId', 'status']);

/** The field that a column's header means; of a column that no animal has, its header. */
function fieldOf(header: string): string {
  const name = header.trim();
  const lower = name.toLowerCase();
  if (/^category(?:[ _-]*id)?$/.test(lower)) return 'categoryId';
  return FIELDS.has(lower) ? lower : name;
}

/** Spreadsheets write columns without a header, and mostly without cells, behind the others. */
const titles = (cells: readonly string[]) => cells.map((cell) => cell.trim()).filter((cell) => cell !== '');

function doubledOf(cells: readonly string[], columns: readonly string[]): string | undefined {
  const names = columns.map((name) => name.toLowerCase());
  const second = names.findIndex((name, i) => name !== '' && names.indexOf(name) < i);
  if (second === -1) return undefined;
  const both = titles([cells[names.indexOf(names[second] ?? '')] ?? '', cells[second] ?? '']);
  return `the column ${columnName(columns[second] ?? '')} stands twice: ${listed(both)}`;
}

const listed = (names: readonly string[]) => cutToWidth(visible(names.join(', ')), MAX_WIDTH);

/** The line below in which a header stands after all, whatever its columns are separated by. */
async function lineOfHeader(rest: AsyncIterator<CsvRecord | { fault: string }>): Promise<number | undefined> {
  for (let i = 0; i < RECORDS_ABOVE; i++) {
    const { value: record, done } = await rest.next();
    if (done || 'fault' in record) return undefined;
    const columns = record.cells
      .join(',')
      .split(/[,;\t]/)
      .map(fieldOf);
    if (NEEDED.every((field) => columns.includes(field))) return record.line;
  }
  return undefined;
}

function noColumn(shown: string, delimiter: string): string {
  const isTab = delimiter === '\t';
  const example = ['name', 'category', 'status'].join(isTab ? ' ' : delimiter);
  const tabs = isTab ? ' (a tab between two)' : '';
  return `has no column that is known (${shown}): the first line must name the columns, for example: ${example}${tabs}`;
}
