import { type CsvError, parse } from 'csv-parse/sync';
import { MAX_ROW_BYTES, type RowError, TOO_LONG } from './row.ts';

/** A record of a CSV file, and the line (1-based) on which the record starts. */
export type CsvRecord = { line: number; cells: string[]; delimiter: string };

/** Matches the line with which Excel declares the delimiter, such as `sep=;`. */
const SEPARATOR_LINE = /^\s*"?sep=([,;\t|])"?[\r\n]+/i;

/** Matches blank lines and leading spaces, but not a leading tab, because the column name before the tab may be empty. */
const BLANK = /^(?:\s*[\r\n])?[^\S\t]*/;

/** Spreadsheets write semicolons in locales with a decimal comma. */
const DELIMITERS = [',', ';', '\t'];

/** Records are parsed in groups, so that the caller can handle signals between groups. */
const RECORDS_AT_ONCE = 500;

const [LF, CR] = [0x0a, 0x0d];

/**
 * The records of a CSV file, including the header and without empty records. Reading stops after the first syntax error
 * or record over 1 MiB, because the start of the next record is then unknown.
 */
export function* csvRecords(text: Buffer): Generator<CsvRecord | ({ line: number } & RowError)> {
  const { headerStart, delimiter } = findHeader(text);
  let [at, line] = [0, 1];
  /** Moves to a position, skips the line breaks that follow, and counts lines. */
  const moveTo = (position: number) => {
    for (; at < position || text[at] === LF || text[at] === CR; at++)
      if (text[at] === LF || (text[at] === CR && text[at + 1] !== LF)) line++;
  };
  moveTo(headerStart);
  while (at < text.length) {
    const start = at;
    const part = text.subarray(start, start + MAX_ROW_BYTES + 1);
    const isCut = start + part.length < text.length;
    const { records, error } = parsePart(part, delimiter);
    for (const { cells, end } of records) {
      if (start + end - at > MAX_ROW_BYTES) return yield { line, error: TOO_LONG };
      // The last record of a part may be cut, so it is parsed again at the start of the next part.
      if (isCut && end === part.length) break;
      if (cells.some((cell) => cell.trim() !== '')) yield { line, cells, delimiter };
      moveTo(start + end);
    }
    if (error === undefined) continue;
    if (!isCut || error.code !== 'CSV_QUOTE_NOT_CLOSED')
      return yield { line, error: `invalid CSV: ${SYNTAX_ERRORS[error.code] ?? error.message}` };
    if (at === start) return yield { line, error: `${TOO_LONG}; check for an unclosed quote` };
  }
}

/** Skips blank lines and a `sep=` line above the header, and detects the delimiter. */
function findHeader(text: Buffer): { headerStart: number; delimiter: string } {
  const head = text.toString('utf8', 0, MAX_ROW_BYTES);
  const [separatorLine = '', separator] = SEPARATOR_LINE.exec(head) ?? [];
  const below = head.slice(separatorLine.length);
  const [blank = ''] = BLANK.exec(below) ?? [];
  const headerStart = Buffer.byteLength(separatorLine + blank);
  return { headerStart, delimiter: separator ?? guessDelimiter(below.slice(blank.length)) };
}

/** The delimiter that occurs most often in the header, outside quotes. */
function guessDelimiter(header: string): string {
  const [names = ''] = header.split(/[\r\n]/, 1);
  const unquoted = names.replace(/"[^"]*"/g, '');
  const counts = DELIMITERS.map((delimiter) => unquoted.split(delimiter).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))] ?? ',';
}

const SYNTAX_ERRORS: Partial<Record<CsvError['code'], string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote opened on this line is never closed',
  CSV_INVALID_CLOSING_QUOTE: 'text after a closing quote, or an unclosed quote',
  INVALID_OPENING_QUOTE: 'a quote inside an unquoted cell',
};

/** Parses the first records of a text. `end` is where a record ends, in bytes. `error` is the first syntax error. */
function parsePart(text: Buffer, delimiter: string) {
  const records: { cells: string[]; end: number }[] = [];
  const on_record = (cells: string[], info: { bytes: number }) => {
    records.push({ cells, end: info.bytes });
    return null;
  };
  try {
    parse(text, {
      delimiter,
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      // Without this option, csv-parse takes ten times as long for a file with many blank lines.
      skip_empty_lines: true,
      to: RECORDS_AT_ONCE,
      on_record,
    });
    return { records, error: undefined };
  } catch (error) {
    return { records, error: error as CsvError };
  }
}
