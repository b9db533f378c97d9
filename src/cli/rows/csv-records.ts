import { type CsvError, parse } from 'csv-parse';
import { MAX_ROW_BYTES, type RowError, TOO_LONG } from './row.ts';
import { prepend, readUntil } from './utf8-text.ts';

/** A record and the line (1-based) on which it starts. */
export type CsvRecord = { line: number; cells: string[]; delimiter: string };

/** The first line that is not blank, after any blank lines. */
const FIRST_LINE = /^\s*\S[^\r\n]*[\r\n]/;

/** The line with which Excel declares the delimiter. */
const SEPARATOR_LINE = /^\s*"?sep=([,;\t|])"?[\r\n]+/i;

/** Blank lines and leading spaces. A leading tab may follow an empty column name, so it is kept. */
const BLANK = /^(?:\s*[\r\n])?[^\S\t]*/;

/** Spreadsheets write semicolons in locales with a decimal comma. */
const DELIMITERS = [',', ';', '\t'];

/** csv-parse emits a record only after reading a few bytes beyond its end. */
const LOOK_AHEAD = 64;

/**
 * The records of a CSV file that are not empty, the header included. Reading stops after the first syntax error or
 * record over 1 MiB, because the start of the next record is then unknown.
 */
export async function* csvRecords(
  texts: AsyncGenerator<string>,
): AsyncGenerator<CsvRecord | ({ line: number } & RowError)> {
  const { skipped, header, rest, delimiter } = await findHeader(texts);
  let line = 1 + countLineEnds([skipped]);
  let start = 0;
  let blankLines = 0;
  const skipBlankLines = (count: number) => {
    line += count - blankLines;
    // Blank lines do not count towards the size of the next record. A line end has at most two bytes.
    start += 2 * (count - blankLines);
    blankLines = count;
  };
  for await (const chunk of parseChunks(prepend(header, rest), delimiter)) {
    const { records, error } = chunk;
    for (const { cells, end, blankBefore } of records) {
      skipBlankLines(blankBefore);
      if (end - start > MAX_ROW_BYTES) return yield { line, error: TOO_LONG };
      if (cells.some((cell) => cell.trim() !== '')) yield { line, cells, delimiter };
      line += 1 + countLineEnds(cells);
      start = end;
    }
    skipBlankLines(chunk.blankLines);
    if (error !== undefined)
      return yield { line, error: `invalid CSV: ${SYNTAX_ERRORS[error.code] ?? error.message}` };
    if (chunk.end - start > MAX_ROW_BYTES + LOOK_AHEAD)
      return yield { line, error: `${TOO_LONG}; check for an unclosed quote` };
  }
}

/**
 * Skips everything above the header and detects the delimiter. Blank lines must not reach csv-parse: it is slow on
 * records that are longer than the first one.
 */
async function findHeader(texts: AsyncGenerator<string>) {
  let head = await readUntil(texts, FIRST_LINE);
  let rest = texts;
  const [separatorLine = '', separator] = SEPARATOR_LINE.exec(head) ?? [];
  if (separator !== undefined) {
    rest = prepend(head.slice(separatorLine.length), texts);
    head = await readUntil(rest, FIRST_LINE);
  }
  const [blank = ''] = BLANK.exec(head) ?? [];
  const header = head.slice(blank.length);
  return { skipped: separatorLine + blank, header, rest, delimiter: separator ?? guessDelimiter(header) };
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

/** What csv-parse found in one chunk. Offsets (in bytes) and `blankLines` count from the start of the whole text. */
type ParsedChunk = {
  records: { cells: string[]; end: number; blankBefore: number }[];
  error: CsvError | undefined;
  end: number;
  blankLines: number;
};

async function* parseChunks(texts: AsyncIterable<string>, delimiter: string): AsyncGenerator<ParsedChunk> {
  let records: ParsedChunk['records'] = [];
  let end = 0;
  const parser = parse({
    delimiter,
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    // csv-parse is slow on records that are longer than the first one, as blank lines in a long file would be.
    skip_empty_lines: true,
    on_record: (cells: string[], info) => {
      records.push({ cells, end: info.bytes, blankBefore: info.empty_lines });
      return null;
    },
  });
  // Errors also arrive in the callbacks below.
  parser.on('error', () => {});
  const flush = (error: unknown): ParsedChunk => {
    const { empty_lines: blankLines } = parser.info;
    const chunk = { records, error: (error ?? undefined) as CsvError | undefined, end, blankLines };
    records = [];
    return chunk;
  };
  for await (const text of texts) {
    end += Buffer.byteLength(text);
    yield flush(await new Promise((resolve) => parser.write(text, resolve)));
  }
  yield flush(await new Promise((resolve) => parser.end(resolve)));
}

/** Counts the line ends in quoted cells. csv-parse counts a quoted CRLF as two. */
function countLineEnds(cells: readonly string[]): number {
  let count = 0;
  for (const cell of cells)
    if (cell.includes('\n') || cell.includes('\r')) count += cell.match(/\r\n|\n|\r/g)?.length ?? 0;
  return count;
}
