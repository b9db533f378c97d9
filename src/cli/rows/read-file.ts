// Reading a file of animals:
// 1. Read its bytes, at most 256 MiB, and refuse anything but UTF-8 text with a hint how to save it.
// 2. Detect its format by its first character, whatever the file is called.
// 3. Parse it, CSV and NDJSON row by row with the line on which each row starts (csv.ts).
// 4. Check every row, and list all errors with their lines; if there is one, the file is not used at all.
// 5. Return the animals, their lines, and which of them had an id.
// Ctrl-C ends the reading at any time.

import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import * as z from 'zod/mini';
import { InterruptedError } from '../../client/errors.ts';
import { INT64_MAX, INT64_MIN, int64, parseJson, stringifyJson } from '../../contract/json.ts';
import { NewPet } from '../../contract/schemas.ts';
import type { Seed } from '../../store/store.ts';
import { fileError, usageError } from '../core/errors.ts';
import type { Console } from '../output/console.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { formatCount, listNames } from '../output/text.ts';
import type { CommandContext } from '../program/command.ts';
import { columnName, csvRows, excerpt } from './csv.ts';
import { parseDocument, readInput, utf8Text } from './input.ts';
import { EMPTY_NAME, MAX_ROW_BYTES, type RawRow, ROW_TOO_LONG, type RowFormat } from './row.ts';

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
  /** What the numbers of the rows count. */
  unit: Unit;
  rows: PetRow[];
};

export type InputOptions = { from: string; format?: RowFormat | undefined };

/** A name that is empty or invisible is usually a mistake in the file, and an animal cannot be removed again. */
const ImportedPet = z.object(
  { ...NewPet.shape, name: NewPet.shape.name.check(z.refine((name) => !EMPTY_NAME.test(name), 'is empty')) },
  { error: 'must be a JSON object' },
);

/**
 * Reads the animals to import from a file, or from standard input (`-`). Prints the errors of rows on stderr.
 *
 * @throws CliError if the input cannot be read, has an error, or has more than `maxRows` rows
 */
export async function readPetFile(
  { from, format }: InputOptions,
  { console, stdin, onSignal }: Pick<CommandContext, 'console' | 'stdin' | 'onSignal'>,
  maxRows: number,
): Promise<PetFile> {
  const isPiped = from === '-';
  const name = isPiped ? 'standard input' : from;
  const path = isPiped ? undefined : await realPathOf(from);
  const interrupt = new AbortController();
  // Opening a named pipe blocks until a process writes to it. Nothing can abort that, so Ctrl-C must end the process.
  const canAbort = isPiped || path !== undefined;
  const unsubscribe = canAbort
    ? onSignal(['SIGINT'], () => interrupt.abort(new InterruptedError()))
    : () => {};
  try {
    const input = isPiped ? stdin : createReadStream(from);
    const bytes = await readInput(input, name, interrupt.signal);
    // A command that fails often leaves an empty file or pipe.
    if (bytes.length === 0)
      throw usageError(
        `${name} is empty`,
        'check the command that created it; a CSV file without animals needs a header line',
      );
    const parsed = parseRows(utf8Text(bytes, name), name, format);
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
 * @throws CliError if the file cannot be read or has an error; the reason of `signal`
 */
export async function readSeedFile(path: string, console: Console, signal?: AbortSignal): Promise<Seed> {
  const used = new Set<bigint>();
  const id = int64.check(
    z.refine((value) => value >= 1n && value < INT64_MAX, `must be a whole number ${ID_BOUNDS}`),
    z.refine((value) => used.size < used.add(value).size, 'is already used by an earlier row'),
  );
  const SeedPet = z.object({ id: z.optional(id), ...NewPet.shape }, { error: 'must be a JSON object' });
  const text = utf8Text(await readInput(createReadStream(path), path, signal), path);
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
  /** What an error prevents, such as `nothing was sent`. */
  refused: string;
  signal: AbortSignal | undefined;
};

/** Rows are checked in groups, so that signals and requests are handled between them. */
const ROWS_PER_TURN = 500;

/** The number of errors that are shown without `--json`. */
const MAX_ERRORS_SHOWN = 20;

/**
 * Checks all rows. Reports errors on stderr as they occur: all of them with `--json`, otherwise the first 20. `fields` are
 * those of any row.
 *
 * @throws CliError if a row has an error, or if there are too many rows
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
    : `fix the ${unit}s above`;
  throw usageError(`${formatCount(errors, 'error')} in ${name}; ${refused}`, hint);
}

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
 * @throws CliError if the text is not such a document
 */
export function parseRows(text: Buffer, name: string, format = detectFormat(text)): ParsedRows {
  if (format !== 'json') {
    const isCsv = format === 'csv';
    return { rows: isCsv ? csvRows(text) : ndjsonRows(text), unit: 'line', isCsv, orders: [] };
  }
  const document = parseDocument(text.toString(), name);
  const { pets, orders = [] } = (Array.isArray(document) ? { pets: document } : (document ?? {})) as Document;
  if (!Array.isArray(pets) || !Array.isArray(orders))
    throw usageError(`${name} must be an array of animals, or an object with the arrays "pets" and "orders"`);
  const rows = pets.map((value: unknown, i): RawRow => ({ line: i + 1, value }));
  return { rows, unit: 'animal', isCsv: false, orders };
}

type Document = { pets?: unknown; orders?: unknown };

const NEWLINE = 0x0a;

/** The rows of NDJSON: one JSON document per line. Blank lines are skipped. */
export function* ndjsonRows(text: Buffer): Generator<RawRow> {
  let line = 1;
  for (let start = 0; start < text.length; line++) {
    const newline = text.indexOf(NEWLINE, start);
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

/** `[` starts JSON, `{` starts NDJSON, unless the first field is `pets` or `orders`, and anything else is CSV. */
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
    const rule = isWrongInteger ? integerRule(found, field) : message;
    const shown = found === undefined ? undefined : showValue(found);
    return [label, shown, rule].filter((part) => part !== undefined).join(' ');
  });
  return problems.join('; ');
}

const showValue = (value: unknown): string =>
  typeof value === 'string' ? `"${excerpt(value)}"` : excerpt(stringifyJson(value));

/** The rule that an invalid integer breaks. A number such as `1E+15`, as spreadsheets write it, is not in plain digits. */
function integerRule(value: unknown, field: string): string {
  const text = typeof value === 'string' ? value.trim() : stringifyJson(value);
  const bounds = field === 'id' ? ID_BOUNDS : `from ${INT64_MIN} to ${INT64_MAX}`;
  return `must be a whole number ${/^-?\d+$/.test(text) ? `${bounds}, ` : ''}in plain digits`;
}
