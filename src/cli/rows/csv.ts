import { Parser } from 'csv-parse';
import { parseInt64 } from '../../contract/json.ts';
import { petStatuses } from '../../contract/schemas.ts';
import { unescapeFormula } from '../output/csv.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { cutToWidth, listNames } from '../output/text.ts';
import { MAX_ROW_BYTES, type RawRow, ROW_TOO_LONG, type RowError } from './row.ts';

/** A record of a CSV file, and the line (from 1) on which it starts. */
type CsvRecord = { line: number; cells: string[] };

/** Matches the line with which Excel declares the delimiter, such as `sep=;`. */
const SEPARATOR_LINE = /^\s*"?sep=([,;\t|])"?[\r\n]+/i;

const BLANK_LINES = /^(?:\s*[\r\n])?/;

/** Spreadsheets write semicolons in locales with a decimal comma. */
const DELIMITERS = [',', ';', '\t'];

/** How much is parsed at once. Between two chunks, the caller can handle signals. */
const CHUNK_BYTES = 16_384;

const [LF, CR] = [0x0a, 0x0d];

const INVALID = 'invalid CSV: a quote is missing or in the wrong place';

/** The rows below the header. An error in the header ends the reading, and so does a syntax error. */
export async function* csvRows(text: Buffer): AsyncGenerator<RawRow> {
  const { start, delimiter } = findStart(text);
  let columns: string[] | undefined;
  for await (const records of csvRecords(text, start, delimiter)) {
    for (const record of records) {
      if ('error' in record) yield record;
      else if (columns !== undefined) yield toRow(columns, record, delimiter);
      else {
        const header = readHeader(record.cells);
        if ('error' in header) return yield { line: record.line, ...header };
        columns = header.columns;
      }
    }
  }
}

/** Skips a `sep=` line and blank lines. Without `sep=`, the delimiter is the most frequent one of the header. */
function findStart(text: Buffer): { start: number; delimiter: string } {
  const head = text.toString('utf8', 0, MAX_ROW_BYTES);
  const [separatorLine = '', separator] = SEPARATOR_LINE.exec(head) ?? [];
  const [blankLines = ''] = BLANK_LINES.exec(head.slice(separatorLine.length)) ?? [];
  const above = separatorLine + blankLines;
  const [names = ''] = head.slice(above.length).split(/[\r\n]/, 1);
  const unquoted = names.replace(/"[^"]*"/g, '');
  const counts = DELIMITERS.map((delimiter) => unquoted.split(delimiter).length);
  const mostFrequent = DELIMITERS[counts.indexOf(Math.max(...counts))] ?? ',';
  return { start: Buffer.byteLength(above), delimiter: separator ?? mostFrequent };
}

/**
 * Parses the records of a CSV file in one pass, and yields those of each chunk, without empty ones. Ends with the first
 * syntax error or record over 1 MiB, because the start of the next record is then unknown.
 */
async function* csvRecords(
  text: Buffer,
  start: number,
  delimiter: string,
): AsyncGenerator<(CsvRecord | ({ line: number } & RowError))[]> {
  let records: (CsvRecord | ({ line: number } & RowError))[] = [];
  // The position and the line of the next record. Lines are counted here, because csv-parse counts a quoted CRLF twice.
  let [at, line] = [0, 1];
  /** Moves to a position, skips the line breaks that follow, and counts lines. */
  const moveTo = (position: number) => {
    for (; at < position || text[at] === LF || text[at] === CR; at++)
      if (text[at] === LF || (text[at] === CR && text[at + 1] !== LF)) line++;
  };
  moveTo(start);
  const parser = new Parser({
    delimiter,
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    // Without this option, csv-parse takes ten times as long for a file with many blank lines.
    skip_empty_lines: true,
    on_record: (cells: string[], { bytes }) => {
      const end = start + bytes;
      if (end - at > MAX_ROW_BYTES) throw new Error(ROW_TOO_LONG);
      if (cells.some((cell) => cell.trim() !== '')) records.push({ line, cells });
      moveTo(end);
      return null;
    },
  });
  // `parseChunk` returns the error.
  parser.on('error', () => {});
  for (let parsed = start; parsed < text.length; parsed += CHUNK_BYTES) {
    const end = Math.min(parsed + CHUNK_BYTES, text.length);
    const failure = await parseChunk(parser, text.subarray(parsed, end), end === text.length);
    // The parser may need a part of the next chunk to see that a record has ended.
    const isTooLong = end - at > MAX_ROW_BYTES + CHUNK_BYTES;
    const error = failure ?? (isTooLong ? new Error(ROW_TOO_LONG) : undefined);
    if (error) records.push({ line, error: error.message === ROW_TOO_LONG ? ROW_TOO_LONG : INVALID });
    yield records;
    if (error) return;
    records = [];
  }
}

function parseChunk(parser: Parser, chunk: Buffer, isLast: boolean): Promise<Error | null | undefined> {
  return new Promise((resolve) => {
    const done = (error?: Error | null) => resolve(error);
    if (isLast) parser.end(chunk, done);
    else parser.write(chunk, done);
  });
}

const REQUIRED = ['name', 'categoryId'];

/** The field of each column. Columns may be in any order and any case. */
function readHeader(cells: readonly string[]): { columns: string[] } | RowError {
  const columns = cells.map(fieldName);
  // Spreadsheets write empty columns after the others.
  const named = cells.map((cell) => cell.trim()).filter((cell) => cell !== '');
  const names = columns.map((name) => name.toLowerCase());
  const repeated = cells.filter(
    (_, i) => names[i] !== '' && names.indexOf(names[i] ?? '') !== names.lastIndexOf(names[i] ?? ''),
  );
  if (repeated.length > 0)
    return { error: `these columns are the same: ${listNames(repeated.map((cell) => cell.trim()))}` };
  const missing = REQUIRED.filter((field) => !columns.includes(field)).map(columnName);
  if (missing.length === 0) return { columns };
  return {
    error: `missing column ${missing.join(' and ')}; found: ${listNames(named)}; the first line must name the columns name, category and optionally status`,
  };
}

/** The field that a column name stands for, or the name itself if there is no such field. */
function fieldName(header: string): string {
  const name = header.trim();
  const lower = name.toLowerCase();
  if (/^category(?:[ _-]*id)?$/.test(lower)) return 'categoryId';
  return ['id', 'name', 'status'].includes(lower) ? lower : name;
}

/** The name of a field in CSV files and in options. JSON files use the field names of the service. */
export const columnName = (field: string): string => (field === 'categoryId' ? 'category' : field);

const EXCERPT_COLUMNS = 40;

/** The beginning of a text from a file, safe to print. */
export function excerpt(text: string): string {
  // The text may be a megabyte long, so cut it before the slower steps.
  return cutToWidth(sanitizeForTerminal(text.slice(0, 4 * EXCERPT_COLUMNS)), EXCERPT_COLUMNS);
}

function toRow(columns: readonly string[], { line, cells }: CsvRecord, delimiter: string): RawRow {
  if (cells.length !== columns.length) {
    const found = `${cells.length}: ${excerpt(cells.join(delimiter))}`;
    return { line, error: `expected ${columns.length} columns, found ${found}` };
  }
  const fields: [string, unknown][] = [];
  for (let i = 0; i < columns.length; i++) {
    const [name = '', cell = ''] = [columns[i], cells[i]];
    if (name === 'name') fields.push([name, unescapeFormula(cell)]);
    else if (cell.trim() !== '')
      fields.push([name, name === 'status' ? parseStatus(cell) : (parseInt64(cell.trim()) ?? cell)]);
  }
  // `fromEntries` also sets a column called __proto__ as an own property.
  return { line, value: Object.fromEntries(fields) };
}

/** Accepts a status in any case. Other text is kept for the error message. */
function parseStatus(cell: string): string {
  const status = cell.trim().toLowerCase();
  return petStatuses.find((known) => known === status) ?? cell;
}
