import { type CsvError, parse } from 'csv-parse';
import { MAX_ROW_BYTES, TOO_LONG } from './read-row.ts';
import { readHead, startingWith } from './text.ts';

export type CsvRecord = { line: number; cells: string[]; delimiter: string };
type CsvFault = { line: number; fault: string };

/** A line that is not blank, with its end, behind blank ones. */
const HEADER = /^\s*\S[^\r\n]*[\r\n]/;

/** What Excel writes, and wants, above the header. */
const SEPARATOR_LINE = /^\s*"?sep=([,;\t|])"?[\r\n]+/i;

/** Blank lines, and the spaces before the first name; a tab may separate it from a column without one. */
const ABOVE_HEADER = /^(?:\s*[\r\n])?[^\S\t]*/;

/** Spreadsheets write semicolons where the comma is the decimal sign, and tabs where one asks for them. */
const DELIMITERS = [',', ';', '\t'];

/** The parser gives a record away once it has seen a few bytes behind it. */
const LOOK_AHEAD = 64;

/**
 * The records of a CSV file that have something in them, the header too, and the line (1-based) on which each begins.
 * A fault is the last of them: behind a quote that is not where it should be no line is sure to begin a record.
 */
export async function* csvRecords(texts: AsyncGenerator<string>): AsyncGenerator<CsvRecord | CsvFault> {
  const { above, header, rest, delimiter } = await findHeader(texts);
  let line = 1 + lineEndsIn([above]);
  let [begin, blankLines] = [0, 0];
  const skipTo = (count: number) => {
    line += count - blankLines;
    blankLines = count;
  };
  for await (const piece of parsed(startingWith(header, rest), delimiter)) {
    const { records, error, bytes } = piece;
    for (const { cells, end, blankBefore } of records) {
      skipTo(blankBefore);
      if (end - begin > MAX_ROW_BYTES) return yield { line, fault: TOO_LONG };
      if (cells.some((cell) => cell.trim() !== '')) yield { line, cells, delimiter };
      line += 1 + lineEndsIn(cells);
      begin = end;
    }
    // Blank lines are no part of what is behind them: it begins in this piece, or later.
    if (piece.blankLines > blankLines) begin = Math.max(begin, piece.begin);
    skipTo(piece.blankLines);
    if (error !== undefined)
      return yield { line, fault: `is not CSV: ${FAULTS[error.code] ?? error.message}` };
    if (bytes - begin > MAX_ROW_BYTES + LOOK_AHEAD)
      return yield { line, fault: `${TOO_LONG}; a quote may be open since here` };
  }
}

/**
 * The text from the header on, what stands above it, and what separates its columns. The parser gets no blank lines
 * before the header: it takes time over records that are longer than the first.
 */
async function findHeader(texts: AsyncGenerator<string>) {
  let head = await readHead(texts, HEADER);
  let rest = texts;
  const [separatorLine = '', separator] = SEPARATOR_LINE.exec(head) ?? [];
  if (separator !== undefined) {
    rest = startingWith(head.slice(separatorLine.length), texts);
    head = await readHead(rest, HEADER);
  }
  const [blank = ''] = ABOVE_HEADER.exec(head) ?? [];
  const header = head.slice(blank.length);
  return { above: separatorLine + blank, header, rest, delimiter: separator ?? delimiterOf(header) };
}

/** The one that stands most often in the header, outside of quotes. */
function delimiterOf(header: string): string {
  const [names = ''] = header.split(/[\r\n]/, 1);
  const plain = names.replace(/"[^"]*"/g, '');
  const counts = DELIMITERS.map((delimiter) => plain.split(delimiter).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))] ?? ',';
}

const FAULTS: Partial<Record<CsvError['code'], string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote that opens here is never closed',
  CSV_INVALID_CLOSING_QUOTE: 'text follows a closing quote, or a quote that opens here is not closed',
  INVALID_OPENING_QUOTE: 'a quote stands inside a cell that is not in quotes',
};

/**
 * What came of a piece of the text: records, with the byte behind each and how many blank lines there were before it,
 * what ended the parsing, where the piece begins, and the bytes and blank lines so far.
 */
type Parsed = {
  records: { cells: string[]; end: number; blankBefore: number }[];
  error: CsvError | undefined;
  begin: number;
  bytes: number;
  blankLines: number;
};

async function* parsed(texts: AsyncIterable<string>, delimiter: string): AsyncGenerator<Parsed> {
  let records: Parsed['records'] = [];
  let [begin, bytes] = [0, 0];
  const parser = parse({
    delimiter,
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    // As records they would be of another length than the header, and the parser takes time over those.
    skip_empty_lines: true,
    on_record: (cells: string[], info) => {
      records.push({ cells, end: info.bytes, blankBefore: info.empty_lines });
      return null;
    },
  });
  // The callbacks below are told of an error as well.
  parser.on('error', () => {});
  const takeParsed = (error: unknown): Parsed => {
    const { empty_lines: blankLines } = parser.info;
    const taken = { records, error: (error ?? undefined) as CsvError | undefined, begin, bytes, blankLines };
    records = [];
    return taken;
  };
  for await (const text of texts) {
    begin = bytes;
    bytes += Buffer.byteLength(text);
    yield takeParsed(await new Promise((resolve) => parser.write(text, resolve)));
  }
  yield takeParsed(await new Promise((resolve) => parser.end(resolve)));
}

/** Only cells in quotes have line ends, and all of them: the parser's own count takes a CRLF in quotes for two. */
function lineEndsIn(cells: readonly string[]): number {
  let count = 0;
  for (const cell of cells)
    if (cell.includes('\n') || cell.includes('\r')) count += cell.match(/\r\n|\n|\r/g)?.length ?? 0;
  return count;
}
