// Reading a file of animals:
// 1. Read its bytes, at most 256 MiB. If they are not UTF-8 text, refuse the file, with a hint how to save it.
// 2. Unless the user has named its format, detect the format by the first characters, whatever the file is called.
// 3. Parse it, CSV and NDJSON row by row with the line on which each row starts.
// 4. Check every row, and list errors with their lines (20, or all with --json); if there is one, the file is not used.
// 5. Return the animals, with their lines and the ids that they have in the file.
// Ctrl-C ends the reading at any time.

import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { CsvError, Parser } from 'csv-parse';
import * as z from 'zod/mini';
import { INT64_MAX, INT64_MIN, int64, parseInt64, parseJson, stringifyJson } from '../../contract/json.ts';
import { NewPet, petStatuses } from '../../contract/schemas.ts';
import type { Seed } from '../../store/store.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import { fileError, usageError } from '../core/errors.ts';
import { readInput, requireUtf8 } from '../core/input.ts';
import type { Console } from '../output/console.ts';
import { unescapeFormula } from '../output/csv.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { cutToWidth, formatCount, listNames } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';
import { EMPTY_NAME, parseJsonDocument, type RowFormat } from './input.ts';

type Unit = 'line' | 'animal';

/** An animal of a file, and the line on which its row starts, or its number among the animals of a JSON document, from 1. */
type FileRow<Animal> = {
  line: number;
  pet: Animal;
  /** Set if the row has an id, such as a row of an export. */
  id?: unknown;
};

export type PetRow = FileRow<NewPet>;

/** An input whose rows are all valid. */
export type PetFile = {
  /** The path as the user typed it, or `standard input`. */
  name: string;
  /** The real path; undefined for standard input and other pipes. */
  path: string | undefined;
  /** What `FileRow.line` counts. */
  unit: Unit;
  rows: PetRow[];
};

/** `file` is a path, or `-` for standard input. */
export type InputOptions = { file: string; format?: RowFormat | undefined };

/** A name that is empty or invisible is usually a mistake in the file, and an animal cannot be removed again. */
const ImportedPet = z.object(
  { ...NewPet.shape, name: NewPet.shape.name.check(z.refine((name) => !EMPTY_NAME.test(name), 'is empty')) },
  { error: 'must be a JSON object' },
);

/**
 * Reads the animals to import from a file, or from standard input (`-`). Prints the errors of rows on stderr.
 *
 * @throws CliError if the input cannot be read, has an error, or has more than `maxRows` rows; InterruptedError
 */
export async function readPetFile(
  { file, format }: InputOptions,
  { console, stdin, onSignal }: Pick<CommandContext, 'console' | 'stdin' | 'onSignal'>,
  maxRows: number,
): Promise<PetFile> {
  const isPiped = file === '-';
  const name = isPiped ? 'standard input' : file;
  const path = isPiped ? undefined : await realPathOf(file);
  const interrupt = new AbortController();
  // Opening a named pipe blocks until a process writes to it. Nothing can abort that, so Ctrl-C must end the process.
  const canAbort = isPiped || path !== undefined;
  const unsubscribe = canAbort
    ? onSignal(['SIGINT'], () => interrupt.abort(new InterruptedError()))
    : () => {};
  try {
    const input = isPiped ? stdin : createReadStream(file);
    const bytes = await readInput(input, name, interrupt.signal);
    // A file or pipe is often empty because the command that should write it has failed.
    if (bytes.length === 0)
      throw usageError(
        `${name} is empty`,
        'check the command that created it; a CSV file without animals needs a header line',
      );
    const parsed = parseRows(requireUtf8(bytes, name), name, format);
    const settings = { console, maxRows, refused: 'nothing was sent', signal: interrupt.signal };
    const { rows, fields } = await checkRows(parsed, ImportedPet, { name, ...settings });
    const ignored = [...fields].filter((field) => !['', 'id'].includes(field) && !(field in NewPet.shape));
    if (ignored.length > 0)
      console.notice(`fields not sent, because the service does not have them: ${listNames(ignored)}`);
    return { name, path, unit: parsed.unit, rows };
  } finally {
    unsubscribe();
  }
}

/** The real path of a file; undefined for a pipe, because the same pipe path may have another input later. */
async function realPathOf(from: string): Promise<string | undefined> {
  try {
    return (await stat(from)).isFile() ? await realpath(from) : undefined;
  } catch (error) {
    throw fileError('read', from, error);
  }
}

/** The ids that an animal of a seed file may have. */
const ID_BOUNDS = `from 1 to ${INT64_MAX - 1n}`;

/**
 * Reads the animals of a seed file. Animals with an id keep it. Other animals get ids above the largest id in the file.
 * A JSON document can have orders, too. Prints the errors of rows on stderr.
 *
 * @throws CliError if the file cannot be read or has an error; the reason of `signal` if it is aborted
 */
export async function readSeedFile(path: string, console: Console, signal?: AbortSignal): Promise<Seed> {
  const used = new Set<bigint>();
  const id = int64.check(
    z.refine((value) => value >= 1n && value < INT64_MAX, `must be a whole number ${ID_BOUNDS}`),
    z.refine((value) => used.size < used.add(value).size, 'is already used by an earlier row'),
  );
  const SeedPet = z.object({ id: z.optional(id), ...NewPet.shape }, { error: 'must be a JSON object' });
  const text = requireUtf8(await readInput(createReadStream(path), path, signal), path);
  const parsed = parseRows(text, path);
  const settings = { name: path, console, refused: 'nothing was added', signal };
  const { rows } = await checkRows(parsed, SeedPet, settings);
  let last = rows.reduce((max, { pet }) => (pet.id !== undefined && pet.id > max ? pet.id : max), 0n);
  // Changes the animals in place, because a million copies take 100 MB.
  const pets = rows
    .map(({ pet }) => Object.assign(pet, { status: pet.status ?? 'available', id: pet.id ?? ++last }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  return { pets, orders: parsed.orders };
}

type Settings = {
  /** The name of the input in messages. */
  name: string;
  console: Console;
  maxRows?: number;
  /** The consequence of an error, for its message, such as `nothing was sent`. */
  refused: string;
  signal: AbortSignal | undefined;
};

/** Rows are checked in groups, so that signals and requests are handled between them. */
const ROWS_PER_TURN = 500;

/** The number of errors that are shown without `--json`. */
const MAX_ERRORS_SHOWN = 20;

/**
 * Checks all rows. Reports errors on stderr as they occur: all of them with `--json`, otherwise the first 20. `fields`
 * are the names of the fields that at least one valid row has.
 *
 * @throws CliError if a row has an error, or if there are too many rows; the reason of `signal` if it is aborted
 */
async function checkRows<Animal>(
  { rows: rawRows, unit, isCsv }: ParsedRows,
  schema: z.core.$ZodType<Animal>,
  { name, console, maxRows = Infinity, refused, signal }: Settings,
): Promise<{ rows: FileRow<Animal>[]; fields: Set<string> }> {
  const rows: FileRow<Animal>[] = [];
  const fields = new Set<string>();
  let read = 0;
  let errors = 0;
  const report = async (number: number, message: string) => {
    if (++errors > MAX_ERRORS_SHOWN && !console.hasJsonEvents) return;
    const text = sanitizeForTerminal(`${name}, ${unit} ${number}: ${message}`);
    console.event({ fault: { source: name, line: number, message } }, text, 2);
    await console.drain();
  };
  for await (const row of rawRows) {
    if (read === maxRows)
      throw usageError(`${name} has more than ${maxRows} rows; ${refused}`, 'split the file');
    if (read++ % ROWS_PER_TURN === 0) await setImmediate();
    signal?.throwIfAborted();
    const { line } = row;
    if ('error' in row) {
      await report(line, row.error);
      continue;
    }
    const { success, data, error } = z.safeParse(schema, row.value);
    if (!success) {
      await report(line, describeInvalidRow(error, row.value, isCsv));
      continue;
    }
    const value = row.value as Record<string, unknown>;
    for (const field of Object.keys(value)) fields.add(field);
    const id = value['id'] ?? undefined;
    rows.push(id === undefined ? { line, pet: data } : { line, pet: data, id });
  }
  signal?.throwIfAborted();
  if (errors === 0) return { rows, fields };
  const isCut = errors > MAX_ERRORS_SHOWN && !console.hasJsonEvents;
  const hint = isCut
    ? `fix the first ${MAX_ERRORS_SHOWN} errors above; --json lists all of them`
    : 'fix the errors above';
  throw usageError(`${formatCount(errors, 'error')} in ${name}; ${refused}`, hint);
}

/**
 * The parsed value of a row, before validation, or why the row cannot be parsed. `line` (from 1) is the line on which the
 * row starts, or in a JSON document the number of the animal. The fields of a CSV row are strings and bigints.
 */
export type RawRow = { line: number } & ({ value: unknown } | { error: string });

const MAX_ROW_BYTES = 1_048_576;

const ROW_TOO_LONG = 'the row is longer than 1 MiB; check for an unclosed quote';

type ParsedRows = {
  rows: Iterable<RawRow> | AsyncIterable<RawRow>;
  unit: Unit;
  /** Whether messages show the names of columns instead of those of fields. */
  isCsv: boolean;
  orders: unknown[];
};

/**
 * Parses a text in a format, or in the one that is detected. A JSON document is an array of animals, or an object
 * `{"pets": […], "orders": […]}`.
 *
 * @throws CliError if a JSON document is not valid. Errors in CSV and NDJSON are yielded as rows
 */
export function parseRows(text: Buffer, name: string, format = detectFormat(text)): ParsedRows {
  if (format !== 'json') {
    const isCsv = format === 'csv';
    return { rows: isCsv ? csvRows(text) : ndjsonRows(text), unit: 'line', isCsv, orders: [] };
  }
  const document = parseJsonDocument(text.toString(), name);
  const { pets, orders = [] } = (Array.isArray(document) ? { pets: document } : (document ?? {})) as Record<
    string,
    unknown
  >;
  if (!Array.isArray(pets) || !Array.isArray(orders))
    throw usageError(
      `${name} must be an array of animals, or an object with an array "pets" and optionally an array "orders"`,
    );
  const rows = pets.map((value: unknown, i): RawRow => ({ line: i + 1, value }));
  return { rows, unit: 'animal', isCsv: false, orders };
}

/** The rows of NDJSON: one JSON document per line. Blank lines are skipped. */
export function* ndjsonRows(text: Buffer): Generator<RawRow> {
  let line = 1;
  for (let start = 0; start < text.length; line++) {
    const newline = text.indexOf(LF, start);
    const end = newline === -1 ? text.length : newline;
    const row = text.subarray(start, end);
    if (row.length > MAX_ROW_BYTES) yield { line, error: ROW_TOO_LONG };
    else if (row.toString().trim() !== '') yield parseRow(line, row.toString());
    start = end + 1;
  }
}

function parseRow(line: number, text: string): RawRow {
  try {
    return { line, value: parseJson(text) };
  } catch (error) {
    return { line, error: `invalid JSON: ${(error as Error).message}` };
  }
}

/** JSON starts with `[`, or with `{` and the field `pets` or `orders`. Other text with `{` is NDJSON, all else CSV. */
export function detectFormat(text: Buffer): RowFormat {
  const start = text.toString('utf8', 0, MAX_ROW_BYTES).trimStart();
  if (/^(?:\[|\{\s*"(?:pets|orders)")/.test(start)) return 'json';
  return start.startsWith('{') ? 'ndjson' : 'csv';
}

/** Describes why a row is invalid, with the values found, for example `status "gone" must be one of …`. */
export function describeInvalidRow(error: z.core.$ZodError, value: unknown, isCsv: boolean): string {
  const problems = error.issues.map(({ path, message }) => {
    const [field] = path.map(String);
    const found = field === undefined ? value : (value as Record<string, unknown>)[field];
    const label = isCsv && field !== undefined ? columnName(field) : field;
    const isWrongInteger =
      (field === 'categoryId' || field === 'id') && found !== undefined && !z.safeParse(int64, found).success;
    const bounds = field === 'id' ? ID_BOUNDS : `from ${INT64_MIN} to ${INT64_MAX}`;
    // Spreadsheets write long numbers such as `1E+15`, so the message asks for plain digits.
    const rule = isWrongInteger ? `must be a whole number ${bounds}, in plain digits` : message;
    const shown = found === undefined ? undefined : showValue(found);
    return [label, shown, rule].filter((part) => part !== undefined).join(' ');
  });
  return problems.join('; ');
}

const showValue = (value: unknown): string =>
  typeof value === 'string' ? `"${excerpt(value)}"` : excerpt(stringifyJson(value));

/** Matches the line with which Excel declares the delimiter, such as `sep=;`. */
const SEPARATOR_LINE = /^\s*"?sep=([,;\t|])"?[\r\n]+/i;

const BLANK_LINES = /^(?:\s*[\r\n])?/;

/** Spreadsheets write semicolons in locales with a decimal comma. */
const DELIMITERS = [',', ';', '\t'];

/** How much is parsed at once. Between two chunks, the caller can handle signals. */
const CHUNK_BYTES = 16_384;

const [LF, CR] = [0x0a, 0x0d];

const INVALID = 'invalid CSV: a quote is missing or in the wrong place; the lines after it were not checked';

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
 * The rows below the header of a CSV file, except empty ones. Ends with the first syntax error, row over 1 MiB or header
 * that cannot be used, because the start or the meaning of the next row is then unknown.
 */
async function* csvRows(text: Buffer): AsyncGenerator<RawRow> {
  const { start, delimiter } = findStart(text);
  let columns: string[] | undefined;
  let rows: RawRow[] = [];
  // The position and the line of the next row. Lines are counted here, because csv-parse counts a quoted CRLF twice.
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
      const isEmpty = cells.every((cell) => cell.trim() === '');
      if (!isEmpty && columns !== undefined) rows.push(toRow(columns, cells, line, delimiter));
      else if (!isEmpty) columns = readHeader(cells);
      moveTo(end);
      return null;
    },
  });
  // `parseChunk` returns the error.
  parser.on('error', () => {});
  for (let parsed = start; parsed < text.length; parsed += CHUNK_BYTES) {
    const end = Math.min(parsed + CHUNK_BYTES, text.length);
    const failure = await parseChunk(parser, text.subarray(parsed, end), end === text.length);
    // The parser may need a part of the next chunk to see that a row has ended.
    const isTooLong = end - at > MAX_ROW_BYTES + CHUNK_BYTES;
    const error = failure ?? (isTooLong ? new Error(ROW_TOO_LONG) : undefined);
    if (error) rows.push({ line, error: error instanceof CsvError ? INVALID : error.message });
    yield* rows;
    if (error) return;
    rows = [];
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

/** The field of each column. Columns may be in any order and any case. @throws Error if a column is missing or repeated */
function readHeader(cells: readonly string[]): string[] {
  const columns = cells.map(fieldName);
  // Spreadsheets write empty columns after the others.
  const named = cells.map((cell) => cell.trim()).filter((cell) => cell !== '');
  const names = columns.map((name) => name.toLowerCase());
  const repeated = cells.filter(
    (_, i) => names[i] !== '' && names.indexOf(names[i] ?? '') !== names.lastIndexOf(names[i] ?? ''),
  );
  if (repeated.length > 0)
    throw new Error(`use only one of these columns: ${listNames(repeated.map((cell) => cell.trim()))}`);
  const missing = REQUIRED.filter((field) => !columns.includes(field)).map(columnName);
  if (missing.length === 0) return columns;
  throw new Error(
    `missing ${missing.length === 1 ? 'column' : 'columns'} ${missing.join(' and ')}; found: ${listNames(named)}; the first line must name the columns name, category and optionally status`,
  );
}

/** The field that a column name stands for, or the name itself if there is no such field. */
function fieldName(header: string): string {
  const name = header.trim();
  const lower = name.toLowerCase();
  if (/^category(?:[ _-]*id)?$/.test(lower)) return 'categoryId';
  return ['id', 'name', 'status'].includes(lower) ? lower : name;
}

/** The name of a field in CSV files and in options. JSON files use the field names of the service. */
const columnName = (field: string): string => (field === 'categoryId' ? 'category' : field);

const EXCERPT_COLUMNS = 40;

/** The beginning of a text from a file, safe to print. */
function excerpt(text: string): string {
  // The text may be a megabyte long, so cut it before the slower steps.
  return cutToWidth(sanitizeForTerminal(text.slice(0, 4 * EXCERPT_COLUMNS)), EXCERPT_COLUMNS);
}

function toRow(columns: readonly string[], cells: string[], line: number, delimiter: string): RawRow {
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
