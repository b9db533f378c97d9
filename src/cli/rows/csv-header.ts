import { sanitizeForTerminal } from '../output/sanitize.ts';
import { cutToWidth } from '../output/width.ts';
import type { CsvRecord } from './csv-records.ts';
import type { RowError } from './row.ts';
import { columnName } from './row-errors.ts';

/** The field name of each column, or what is wrong with the header. */
export type CsvHeader = { columns: string[] } | RowError;

const REQUIRED = ['name', 'categoryId'];
const FIELDS = new Set(['id', 'name', 'categoryId', 'status']);

/** How many records to search for a header that is not on the first line, for example below a title. */
const MAX_RECORDS_ABOVE = 10;

/** The most terminal columns that a list of column names takes in a message. */
const MAX_LIST_WIDTH = 100;

/**
 * Reads the first record of a file as its header. Columns may be in any order and any case. `name` and `category` are
 * required, and no column may appear twice. If the record is not a header, takes records from `rest`, so that the error
 * message can name the line of the header.
 */
export function parseCsvHeader(
  { cells, delimiter }: CsvRecord,
  rest: Iterator<CsvRecord | RowError>,
): CsvHeader {
  const columns = cells.map(fieldName);
  const duplicate = findDuplicate(cells, columns);
  if (duplicate !== undefined) return { error: duplicate };
  const missing = REQUIRED.filter((field) => !columns.includes(field)).map(columnName);
  if (missing.length === 0) return { columns };
  const headerLine = findHeaderLine(rest);
  if (headerLine !== undefined) {
    return {
      error: `this line is not a header; the header is on line ${headerLine}, so remove the lines above it`,
    };
  }
  const found = joinNames(cells);
  if (!columns.some((column) => FIELDS.has(column))) return { error: unknownHeader(found, delimiter) };
  return {
    error: `missing column ${missing.join(' and ')}; found: ${found} (required: name, category; optional: status)`,
  };
}

/** The field that a column name stands for, or the name itself if there is no such field. */
function fieldName(header: string): string {
  const name = header.trim();
  const lower = name.toLowerCase();
  if (/^category(?:[ _-]*id)?$/.test(lower)) return 'categoryId';
  return FIELDS.has(lower) ? lower : name;
}

function findDuplicate(cells: readonly string[], columns: readonly string[]): string | undefined {
  const names = columns.map((name) => name.toLowerCase());
  const second = names.findIndex((name, i) => name !== '' && names.indexOf(name) < i);
  if (second === -1) return undefined;
  const both = [cells[names.indexOf(names[second] ?? '')] ?? '', cells[second] ?? ''];
  const [one, other] = both.map((cell) => joinNames([cell]));
  return `columns ${one} and ${other} both mean "${columnName(columns[second] ?? '')}"; remove one`;
}

/** Joins column names for a message. Omits empty names, because spreadsheets write empty columns after the others. */
function joinNames(cells: readonly string[]): string {
  const names = cells.map((cell) => cell.trim()).filter((cell) => cell !== '');
  return cutToWidth(sanitizeForTerminal(names.join(', ')), MAX_LIST_WIDTH);
}

/** The line of the first record that looks like a header with any delimiter. */
function findHeaderLine(rest: Iterator<CsvRecord | RowError>): number | undefined {
  for (let i = 0; i < MAX_RECORDS_ABOVE; i++) {
    const { value: record, done } = rest.next();
    if (done || 'error' in record) return undefined;
    const columns = record.cells.join(',').split(/[,;\t]/);
    const fields = columns.map(fieldName);
    if (REQUIRED.every((field) => fields.includes(field))) return record.line;
  }
  return undefined;
}

function unknownHeader(found: string, delimiter: string): string {
  const isTab = delimiter === '\t';
  const example = ['name', 'category', 'status'].join(isTab ? ' ' : delimiter);
  const note = isTab ? ' (separated by tabs)' : '';
  return `unknown columns: ${found}; the first line must name the columns, for example: ${example}${note}`;
}
