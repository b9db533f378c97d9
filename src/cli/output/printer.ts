import { extname } from 'node:path';
import { parseJson, stringifyJson } from '../../contract/json.ts';
import { usageError } from '../core/errors.ts';
import { cellText, isNumber } from '../core/fields.ts';
import type { Console, Format } from './console.ts';
import { quoteIfBlank, sanitizeJson, tsvLine } from './sanitize.ts';
import type { TableColumn } from './table.ts';
import { listNames } from './text.ts';

/** The values of the options that choose a format. */
export type OutputOptions = {
  ndjson?: boolean;
  csv?: boolean;
  excel?: boolean;
  output?: string;
};

const EXTENSIONS: Readonly<Record<string, Format>> = {
  '.json': 'json',
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.csv': 'csv',
  '.tsv': 'tsv',
  '.txt': 'table',
};
const OTHER_PROGRAMS = /^\.(xlsx?|ods|pdf|html)$/;

/**
 * Chooses the format by the options, or else by the extension of the output file, or else by `prints` and `isTerminal`.
 *
 * @throws CliError if several formats are chosen, or if the file's extension does not fit the options or the command
 */
export function chooseFormat(
  { output = '', ...options }: OutputOptions,
  { json, isTerminal, prints }: { json: boolean; isTerminal: boolean; prints: 'rows' | 'text' },
): Format {
  const isGiven = { json, ...options };
  const given = (['json', 'ndjson', 'csv', 'excel'] as const).filter((name) => isGiven[name]);
  const [chosen, other] = given;
  if (other !== undefined) throw usageError(`--${given.join(' and --')} cannot be combined`, 'use only one');
  const extension = extname(output).toLowerCase();
  const ofFile = EXTENSIONS[extension];
  if (chosen !== undefined) return chosen;
  const fits = prints === 'rows' ? Object.keys(EXTENSIONS) : ['.json', '.txt'];
  if (OTHER_PROGRAMS.test(extension) || (ofFile !== undefined && !fits.includes(extension))) {
    const spreadsheet = prints === 'rows' && /^\.(xls|ods)/.test(extension);
    throw usageError(
      `this command cannot write ${extension} files`,
      spreadsheet ? 'for a spreadsheet: --excel --output <file>.csv' : `use ${fits.join(', ')}`,
    );
  }
  if (prints === 'text') return ofFile === 'json' ? 'json' : 'text';
  return ofFile ?? (isTerminal && output === '' ? 'table' : 'lines');
}

export type Column<Row> = {
  /** The name of the field, which is the header of CSV and, in upper case, the head of a table. */
  name: string;
  value(row: Row): unknown;
  /** The head in a table, if it is not the name. */
  head?: string;
  /** What a terminal shows instead of the value. */
  shown?(value: unknown): unknown;
  /** Whether only a table has the column, or only the other formats. */
  only?: 'table' | 'data';
  /** Whether a narrow table cuts the cells; by default, it cuts texts, but not numbers. */
  isFlexible?: boolean;
  color?: TableColumn['color'];
};

/** How a command prints its rows. */
export type View<Row> = {
  columns: readonly Column<Row>[];
  /** The JSON of a row, if it is not the row itself. */
  json?(row: Row): string;
  /** Whether the JSON document is the only row, instead of an array of rows. */
  isSingle?: boolean;
};

/** The parts of the note on stderr that follows the rows. */
export type Footer = {
  /** Only for people (`Console.isForPeople`): how many rows there are, and which. */
  summary: string;
  /** For people and scripts: why rows may be missing, or how to get all. */
  warning?: string | undefined;
};

export type Printer<Row> = {
  /** @throws OutputError, InterruptedError */
  write(rows: readonly Row[]): Promise<void>;
  /** Completes the output. @throws OutputError, InterruptedError */
  end(footer?: Footer): Promise<void>;
};

/** The number of cells that are written at a time, because all rows together can need gigabytes. */
const PART_CELLS = 20_000;

/**
 * Prints rows in the format of the console. A table needs all rows to compute its widths. A JSON document is written
 * only when it is complete, so that stdout stays empty after a failure. Other formats are written as the rows arrive.
 */
export function createPrinter<Row>(console: Console, view: View<Row>): Printer<Row> {
  const { format, isTerminal } = console;
  const { json = (row: Row) => stringifyJson(row) } = view;
  const columns = view.columns.filter(({ only }) => only !== (format === 'table' ? 'data' : 'table'));
  const isKept = format === 'table' || format === 'json';
  const kept: Row[] = [];
  let isStarted = false;

  const values = (row: Row): unknown[] => columns.map(({ value }) => value(row));
  const toText = async (rows: readonly Row[]): Promise<string> => {
    if (format === 'lines') return rows.map((row) => tsvLine(values(row).map(cellText))).join('');
    if (format === 'ndjson') {
      const lines = rows.map((row) => `${json(row)}\n`).join('');
      return isTerminal ? sanitizeJson(lines) : lines;
    }
    if (columns.length === 0) return '';
    const header = isStarted ? [] : [columns.map(({ name }) => name)];
    const { toCsv } = await import('./csv.ts');
    const text = toCsv([...header, ...rows.map(values)], console);
    if (/[\ud800-\udfff]/u.test(text))
      console.noticeOnce(
        'some text is not valid Unicode (half of a surrogate pair), which CSV cannot contain; it was replaced with U+FFFD. For the exact text: --json',
      );
    const mark = format === 'excel' && !isStarted ? '\ufeff' : '';
    isStarted = true;
    return mark + text;
  };

  /** Writes the rows as JSON. An array for a file or pipe is written in parts: a long one does not fit in a string. */
  async function writeJson(): Promise<void> {
    if (isTerminal || view.isSingle) {
      const texts = kept.map(json);
      return console.writeJson(parseJson(view.isSingle ? (texts[0] ?? 'null') : `[${texts.join()}]`));
    }
    if (kept.length === 0) return console.write('[]\n');
    let mark = '[';
    for (const part of partsOf(kept, PART_CELLS / 4)) {
      await console.write(mark + part.map(json).join());
      mark = ',';
    }
    await console.write(']\n');
  }

  /** Writes the rows as a table, and returns the names of the columns that do not fit. */
  async function writeTable(): Promise<string[]> {
    if (kept.length === 0) return [];
    const { drawTable } = await import('./table.ts');
    const drawn = columns.map((column) => toTableColumn(column, kept, isTerminal));
    const { text, shown } = drawTable(drawn, console.columns, console.colors);
    await console.write(text);
    return columns.slice(shown).flatMap(({ name }) => name || []);
  }

  return {
    async write(rows) {
      if (isKept) for (const row of rows) kept.push(row);
      else
        for (const part of partsOf(rows, PART_CELLS / Math.max(1, columns.length)))
          await console.write(await toText(part));
    },
    async end(footer) {
      let hidden: string[] = [];
      if (format === 'json') await writeJson();
      else if (format === 'table') hidden = await writeTable();
      else if (!isStarted && ['csv', 'excel', 'tsv'].includes(format)) await console.write(await toText([]));
      const rest =
        hidden.length === 0
          ? undefined
          : `fields not shown: ${listNames(hidden)}; for all fields, add --json`;
      const summary = console.isForPeople ? footer?.summary : undefined;
      const parts = [summary, footer?.warning, rest].filter((part) => part !== undefined && part !== '');
      if (parts.length > 0) console.notice(parts.join('; '));
    },
  };
}

/** Prints all rows and the footer at once. @throws OutputError, InterruptedError */
export async function print<Row>(
  console: Console,
  view: View<Row>,
  rows: readonly Row[],
  footer?: Footer,
): Promise<void> {
  const printer = createPrinter(console, view);
  await printer.write(rows);
  await printer.end(footer);
}

/** Prints data that is not rows: `value` for JSON, otherwise `text`. @throws OutputError, InterruptedError */
export async function printText(console: Console, value: unknown, text: string): Promise<void> {
  if (console.format === 'json') await console.writeJson(value);
  else if (text !== '') await console.write(text);
}

function* partsOf<Item>(items: readonly Item[], size: number): Generator<readonly Item[]> {
  const step = Math.max(1, Math.floor(size));
  for (let start = 0; start < items.length; start += step) yield items.slice(start, start + step);
}

/** A column of numbers is aligned to the right. Text that is empty or only spaces is shown in quotes. */
function toTableColumn<Row>(
  { name, head, value, shown, isFlexible, color }: Column<Row>,
  rows: readonly Row[],
  isTerminal: boolean,
): TableColumn {
  const values = rows.map((row) => (isTerminal && shown ? shown(value(row)) : value(row)));
  const isNumeric = values.every((each) => each === null || each === undefined || isNumber(each));
  return {
    head: head ?? quoteIfBlank(name).toUpperCase(),
    cells: values.map((each) => (typeof each === 'string' ? quoteIfBlank(each) : cellText(each))),
    align: isNumeric ? 'right' : 'left',
    isFlexible: isFlexible ?? !isNumeric,
    color,
  };
}
