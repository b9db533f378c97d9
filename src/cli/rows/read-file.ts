import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { CsvError, parse as parseCsv } from 'csv-parse/sync';
import * as z from 'zod/mini';
import {
  findJsonError,
  INT64_MAX,
  INT64_MIN,
  int64,
  NestingError,
  parseJson,
  stringifyJson,
} from '../../contract/json.ts';
import { NewPet, petStatuses } from '../../contract/schemas.ts';
import { usageError } from '../core/errors.ts';
import { inputError, parseJsonDocument, readInput, requireUtf8 } from '../core/input.ts';
import { EMPTY_NAME_PATTERN } from '../core/values.ts';
import type { Console } from '../output/console.ts';
import { unescapeFormula } from '../output/csv.ts';
import { cut, formatCount, listNames, sanitizeForTerminal } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';

// Reads a file of animals: its bytes, its format by the first characters, and its rows. One wrong row refuses the file.

export type RowFormat = 'csv' | 'ndjson' | 'json';

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

/** A name that is empty or invisible is usually a mistake in the file, and an animal cannot be removed again. */
const ImportedPet = z.object(
  {
    ...NewPet.shape,
    name: NewPet.shape.name.check(z.refine((name) => !EMPTY_NAME_PATTERN.test(name), 'is blank')),
  },
  { error: 'must be a JSON object' },
);

/**
 * Reads the animals to import from a file, or from standard input (`-`). Prints the errors of rows on stderr.
 *
 * @throws CliError if the input cannot be read, has an error, or has more than `maxRows` rows
 */
export async function readPetFile(
  file: string,
  { console, stdin }: Pick<CommandContext, 'console' | 'stdin'>,
  maxRows: number,
): Promise<PetFile> {
  const isPiped = file === '-';
  const name = isPiped ? 'standard input' : file;
  const path = isPiped ? undefined : await realPathOf(file);
  if (isPiped && stdin.isTTY) console.notice('type the rows, then Ctrl-D (on Windows, Ctrl-Z and Enter)');
  const bytes = await readInput(isPiped ? stdin : createReadStream(file), name);
  // A file or pipe is often empty because the command that should write it has failed.
  if (bytes.length === 0) throw usageError(`${name} is empty`, 'fill it, or check the command that fills it');
  const settings = { name, console, maxRows, refused: 'nothing was sent' };
  const { rows, unit, fields } = checkRows(bytes, ImportedPet, settings);
  const ignored = [...fields].filter((field) => !['', 'id'].includes(field) && !(field in NewPet.shape));
  if (ignored.length > 0)
    console.notice(`fields not sent, because the service does not have them: ${listNames(ignored)}`);
  return { name, path, unit, rows };
}

/** The real path of a file; undefined for a pipe, because the same pipe path may have another input later. */
async function realPathOf(file: string): Promise<string | undefined> {
  const stats = await stat(file).catch((error) => {
    throw inputError(file, error);
  });
  return stats.isFile() ? realpath(file) : undefined;
}

/** `name` is that of the input in messages, and `refused` the consequence of an error, such as `nothing was sent`. */
type CheckOptions = { name: string; console: Console; maxRows?: number; refused: string };

const EXCEL_HINT = 'use UTF-8 instead; in Excel: Save As → CSV UTF-8 (comma delimited)';

/**
 * Parses and checks all rows. Reports errors on stderr: with `--json` each one, otherwise as `groupErrors` does. `fields`
 * are the names of the fields that at least one valid row has.
 *
 * @throws CliError if the bytes are not UTF-8 text or cannot be parsed, if a row has an error, or if there are too many rows
 */
export function checkRows<Animal>(
  bytes: Buffer,
  schema: z.core.$ZodType<Animal>,
  { name, console, maxRows = Infinity, refused }: CheckOptions,
): { rows: FileRow<Animal>[]; unit: Unit; fields: Set<string>; orders: unknown[] } {
  const text = requireUtf8(bytes, name, EXCEL_HINT);
  const format = detectFormat(text);
  const unit = format === 'json' ? 'animal' : 'line';
  const rows: FileRow<Animal>[] = [];
  const fields = new Set<string>();
  const errors: RowError[] = [];
  const orders = parseRows(text, name, format, (line, value, problem) => {
    if (rows.length + errors.length === maxRows)
      throw usageError(`${name} has more than ${maxRows} rows; ${refused}`, 'split the file');
    const { data, error } = z.safeParse(schema, value);
    if (problem === undefined && error === undefined) {
      const { id } = value as Record<string, unknown>;
      for (const field of Object.keys(value as object)) fields.add(field);
      rows.push(id === undefined || id === null ? { line, pet: data } : { line, pet: data, id });
    } else errors.push({ line, message: problem ?? (error ? describeInvalidRow(error, value) : '') });
  });
  if (errors.length === 0) return { rows, unit, fields, orders };
  if (console.hasJsonEvents)
    for (const error of errors) console.event({ fault: { source: name, ...error } }, '');
  else
    for (const each of groupErrors(errors, unit)) console.event({}, sanitizeForTerminal(`${name}, ${each}`));
  throw usageError(`${formatCount(errors.length, 'error')} in ${name}; ${refused}`, 'fix the errors above');
}

type RowError = { line: number; message: string };

const MAX_ERRORS_SHOWN = 20;

/** The first 20 different errors, such as `lines 2–41, 43: status "gone" must be one of …`. The others are only counted. */
export function groupErrors(errors: readonly RowError[], unit: Unit): string[] {
  const linesOf = new Map<string, number[]>(errors.map(({ message }) => [message, []]));
  for (const { line, message } of errors) linesOf.get(message)?.push(line);
  const texts = [...linesOf].slice(0, MAX_ERRORS_SHOWN).map(([message, lines]) => {
    return `${unit}${lines.length > 1 ? 's' : ''} ${listNames(rangesOf(lines))}: ${message}`;
  });
  const more = linesOf.size - texts.length;
  return more > 0 ? [...texts, `… and ${more} more; with --json, all are shown`] : texts;
}

/** Ascending numbers as ranges, such as `2–41` and `50`. */
function rangesOf(numbers: readonly number[]): string[] {
  const ranges: [number, number][] = [];
  for (const number of numbers) {
    const last = ranges.at(-1);
    if (last?.[1] === number - 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}–${to}`));
}

/**
 * Receives the parsed value of a row before validation. `error` is set if the row cannot be used. `line` (from 1) is the line
 * on which the row starts, or in a JSON document the number of the animal. In CSV, fields are strings and bigints.
 */
type OnRow = (line: number, value: unknown, error?: string) => void;

/** The format and the delimiter are detected from the first bytes of a text, at most this many. */
const HEAD_BYTES = 1_048_576;

/**
 * Parses a text, and calls `onRow` for each row. A JSON document is an array of animals, or an object
 * `{"pets": […], "orders": […]}`. Returns its orders.
 *
 * @throws CliError if a JSON document is not valid, or if NDJSON has objects over several lines; the errors of `onRow`
 */
export function parseRows(text: Buffer, name: string, format: RowFormat, onRow: OnRow): unknown[] {
  if (format !== 'json') {
    if (format === 'csv') parseCsvRows(text, onRow);
    else parseLines(text, name, onRow);
    return [];
  }
  const source = text.toString();
  const document = parseJsonDocument(source, name);
  const { pets, orders = [] } = (Array.isArray(document) ? { pets: document } : (document ?? {})) as Record<
    string,
    unknown
  >;
  if (!Array.isArray(pets) || !Array.isArray(orders))
    throw usageError(
      `${name} must be an array of animals, or an object with an array "pets" and optionally an array "orders"`,
      'for example: [{"name": "Rex", "category": 3}]',
    );
  const repeated = findRepeatedField(source);
  if (repeated !== undefined) throw usageError(`${name}: ${repeated}`, 'remove one of them');
  for (const [i, value] of pets.entries()) passOnJsonRow(i + 1, value, onRow);
  return orders;
}

/** Parses NDJSON: one JSON document per line. Blank lines are skipped. */
function parseLines(text: Buffer, name: string, onRow: OnRow): void {
  let line = 1;
  let isFirst = true;
  for (let start = 0; start < text.length; line++) {
    const newline = text.indexOf(LF, start);
    const end = newline === -1 ? text.length : newline;
    const source = text.toString('utf8', start, end);
    const row = source.trim();
    start = end + 1;
    if (row === '') continue;
    let value: unknown;
    try {
      value = parseJson(row);
    } catch (error) {
      if (isFirst && row.startsWith('{') && !/\},?$/.test(row))
        throw usageError(
          `${name} has lines that are not complete JSON objects`,
          'write each animal on one line, for example with jq: jq -c . in.json > out.ndjson (if the animals are in a field: jq -c .field[])',
        );
      const { column } = findJsonError(source) ?? {};
      const place = column === undefined ? '' : ` at column ${column}`;
      onRow(line, undefined, error instanceof NestingError ? error.message : `invalid JSON${place}`);
      continue;
    } finally {
      isFirst = false;
    }
    passOnJsonRow(line, value, onRow, findRepeatedField(row));
  }
}

/** Passes on an animal of JSON or NDJSON. Its field `categoryId` may have the name `category`, as in CSV files. */
function passOnJsonRow(line: number, value: unknown, onRow: OnRow, problem?: string): void {
  if (typeof value !== 'object' || value === null || !('category' in value)) onRow(line, value, problem);
  else if ('categoryId' in value) onRow(line, value, onlyOne(['category', 'categoryId']));
  else {
    const { category, ...others } = value;
    onRow(line, { ...others, categoryId: category }, problem);
  }
}

const onlyOne = (names: readonly string[]): string => `use only one of these: ${listNames(names)}`;

/** Describes a field that an object of a JSON text has twice. Parsers keep only one of the values. */
function findRepeatedField(text: string): string | undefined {
  const objects: Set<string>[] = [];
  let start: number | undefined;
  let lastString = '';
  for (const { 0: token, index } of text.matchAll(/\\.|["{}:]/g)) {
    if (token === '"') {
      if (start !== undefined) lastString = text.slice(start, index + 1);
      start = start === undefined ? index : undefined;
    } else if (start !== undefined) continue;
    else if (token === '{') objects.push(new Set());
    else if (token === '}') objects.pop();
    else {
      // Outside of strings, a colon follows only the name of a field.
      const field: string = JSON.parse(lastString);
      if (objects.at(-1)?.has(field)) return `an object has the field ${listNames([field])} twice`;
      objects.at(-1)?.add(field);
    }
  }
  return undefined;
}

/** A JSON document starts with `[`, or `{` and one of these names (`animals` is a mistake). Any other `{` starts NDJSON. */
export function detectFormat(text: Buffer): RowFormat {
  const start = text.toString('utf8', 0, HEAD_BYTES).trimStart();
  if (/^(?:\[|\{\s*"(?:pets|orders|animals)")/.test(start)) return 'json';
  return start.startsWith('{') ? 'ndjson' : 'csv';
}

/** Describes why a row is invalid, with the values found, for example `status "gone" must be one of …`. */
export function describeInvalidRow(error: z.core.$ZodError, value: unknown): string {
  const problems = error.issues.map(({ path, message }) => {
    const [field] = path.map(String);
    const actual = field === undefined ? value : (value as Record<string, unknown>)[field];
    const shown = actual === undefined ? undefined : showValue(actual);
    const isInteger = field === 'categoryId' || field === 'id';
    const isWrong = isInteger && actual !== undefined && !z.safeParse(int64, actual).success;
    const rule = isWrong ? integerRule(field, actual) : message;
    return [field && columnName(field), shown, rule].filter((part) => part !== undefined).join(' ');
  });
  return problems.join('; ');
}

function integerRule(field: string, value: unknown): string {
  if (typeof value === 'bigint') return `must be from ${INT64_MIN} to ${INT64_MAX}`;
  if (typeof value === 'string' && /^\d{1,19}$/.test(value)) return 'must be a number without quotes';
  const text = typeof value === 'string' ? value.trim() : stringifyJson(value);
  const isNumber = /^[+-]?[\d.,]+(?:e[+-]?\d+)?$/i.test(text);
  if (isNumber || field === 'id') return 'must be a whole number, in plain digits';
  return 'is not a number (pets count --by category shows the categories)';
}

const showValue = (value: unknown): string =>
  typeof value === 'string' ? `"${excerpt(value)}"` : excerpt(stringifyJson(value));

/** Spreadsheets write semicolons in locales with a decimal comma. */
const DELIMITERS = [',', ';', '\t'];

const [LF, CR] = [0x0a, 0x0d];

const INVALID = 'invalid CSV: a quote is missing or in the wrong place; the lines after it were not checked';

/** The most frequent delimiter in the first line that is not blank, which is usually the header. */
function findDelimiter(text: Buffer): string {
  const head = text.toString('utf8', 0, HEAD_BYTES).trimStart();
  const [names = ''] = head.split(/[\r\n]/, 1);
  const unquoted = names.replace(/"[^"]*"/g, '');
  const counts = DELIMITERS.map((delimiter) => unquoted.split(delimiter).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))] ?? ',';
}

/**
 * Passes on the rows below the header of a CSV file, except empty ones. Passes on nothing after the first syntax error, or
 * after a header that cannot be used, because the start or the meaning of the next row is then unknown.
 */
function parseCsvRows(text: Buffer, onRow: OnRow): void {
  const delimiter = findDelimiter(text);
  let header: string[] | string | undefined;
  // The position and the line of the next row. Lines are counted here, because csv-parse counts a quoted CRLF twice.
  let [at, line] = [0, 1];
  /** Moves to a position, skips the line breaks that follow, and counts lines. */
  const moveTo = (position: number) => {
    for (; at < position || text[at] === LF || text[at] === CR; at++)
      if (text[at] === LF || (text[at] === CR && text[at + 1] !== LF)) line++;
  };
  moveTo(0);
  try {
    parseCsv(text, {
      delimiter,
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      // Without this option, csv-parse takes many times as long for a file with many blank lines.
      skip_empty_lines: true,
      on_record: (cells: string[], { bytes }) => {
        const isEmpty = cells.every((cell) => cell.trim() === '');
        if (!isEmpty && Array.isArray(header)) passOnCsvRow(header, cells, line, delimiter, onRow);
        if (!isEmpty && header === undefined) {
          header = readHeader(cells);
          if (typeof header === 'string') onRow(line, undefined, header);
        }
        moveTo(bytes);
        return null;
      },
    });
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    if (typeof header !== 'string') onRow(line, undefined, INVALID);
  }
}

/** The field of each column, or why the header cannot be used. Columns may be in any order and any case. */
function readHeader(cells: readonly string[]): string[] | string {
  const columns = cells.map(fieldName);
  const names = columns.map((name) => name.toLowerCase());
  // Spreadsheets write empty columns after the others.
  const named = cells.map((cell) => cell.trim()).filter((cell) => cell !== '');
  const isRepeated = (name: string) => name !== '' && names.indexOf(name) !== names.lastIndexOf(name);
  const repeated = cells.filter((_, i) => isRepeated(names[i] ?? ''));
  if (repeated.length > 0) return onlyOne(repeated.map((cell) => cell.trim()));
  const missing = ['name', 'categoryId'].filter((field) => !columns.includes(field)).map(columnName);
  if (missing.length === 0) return columns;
  return `missing ${missing.length === 1 ? 'column' : 'columns'} ${missing.join(' and ')}; found: ${listNames(named)}; the first line must name the columns name, category and optionally status, separated by commas, semicolons or tabs`;
}

/** The field that a column name stands for, or the name itself if there is no such field. */
function fieldName(header: string): string {
  const name = header.trim();
  const lower = name.toLowerCase();
  if (/^category(?:[ _-]*id)?$/.test(lower)) return 'categoryId';
  return ['id', 'name', 'status'].includes(lower) ? lower : name;
}

/** The name of a field in messages, which is that of its column in the help. */
const columnName = (field: string): string => (field === 'categoryId' ? 'category' : field);

const EXCERPT_LENGTH = 40;

/** The beginning of a text from a file, safe to print. */
function excerpt(text: string): string {
  // The text may be a megabyte long, so cut it before the slower steps.
  return cut(sanitizeForTerminal(text.slice(0, 4 * EXCERPT_LENGTH)), EXCERPT_LENGTH);
}

function passOnCsvRow(
  columns: readonly string[],
  cells: string[],
  line: number,
  delimiter: string,
  onRow: OnRow,
): void {
  const fields: [string, unknown][] = [];
  for (let i = 0; i < columns.length; i++) {
    const [name = '', cell = ''] = [columns[i], cells[i]];
    if (name === 'name') fields.push([name, unescapeFormula(cell)]);
    else if (cell.trim() !== '') fields.push([name, name === 'status' ? parseStatus(cell) : parseCell(cell)]);
  }
  const isWrong = cells.length !== columns.length;
  const found = isWrong && `found ${cells.length}: ${excerpt(cells.join(delimiter))}`;
  // `fromEntries` also sets a column called __proto__ as an own property.
  onRow(line, Object.fromEntries(fields), found ? `expected ${columns.length} columns, ${found}` : undefined);
}

/** Accepts a status in any case. Other text is kept for the error message. */
function parseStatus(cell: string): string {
  const status = cell.trim().toLowerCase();
  return petStatuses.find((other) => other === status) ?? cell;
}

/** A whole number as a bigint, even if a spreadsheet wrote it as `3.0`. Other text is kept. */
function parseCell(cell: string): string | bigint {
  const [, digits] = /^\s*(-?\d{1,40})(?:\.0+)?\s*$/.exec(cell) ?? [];
  return digits === undefined ? cell : BigInt(digits);
}
