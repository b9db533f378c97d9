import { extname } from 'node:path';
import { parseJson, stringifyJson } from '../../contract/json.ts';
import { usageError } from '../core/errors.ts';
import { cellText, isNumber } from '../core/values.ts';
import type { Console, Format } from './console.ts';
import { toCsv } from './csv.ts';
import type { TableColumn } from './table.ts';
import { listNames, sanitizeJson, tsvLine } from './text.ts';

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

/**
 * Chooses the format by the options, or else by the extension of the output file, or else by `prints` and `isTerminal`.
 *
 * @throws CliError if several formats are chosen, or if rows have no format for the extension of the file
 */
export function chooseFormat(
  { output = '', ...options }: OutputOptions,
  { json, isTerminal, prints }: { json: boolean; isTerminal: boolean; prints: 'rows' | 'text' },
): Format {
  const isGiven = { json, ...options };
  const given = (['json', 'ndjson', 'csv', 'excel'] as const).filter((name) => isGiven[name]);
  if (given.length > 1) throw usageError(`--${given.join(' and --')} cannot be combined`, 'use only one');
  if (given[0] !== undefined) return given[0];
  const extension = extname(output).toLowerCase();
  const ofFile = EXTENSIONS[extension];
  if (prints === 'text') return ofFile === 'json' ? 'json' : 'text';
  if (extension !== '' && ofFile === undefined)
    throw usageError(
      `pets cannot write ${extension} files`,
      'use .csv for a spreadsheet (with --excel if the command has it), or .json, .ndjson, .tsv or .txt',
    );
  return ofFile ?? (isTerminal && output === '' ? 'table' : 'lines');
}

export type Column<Row> = {
  /** The name of the field, which is the header of CSV and, in upper case, the head of a table. */
  name: string;
  value(row: Row): unknown;
  /** The head in a table, if it is not the name. */
  head?: string;
  /** What a table on a terminal shows instead of the value. */
  terminalValue?(value: unknown): unknown;
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

/** Except in tables, only the cells of this many rows are in memory at a time, because all cells can need gigabytes. */
const PART_ROWS = 1_000;

/**
 * Prints rows in the format of the console. A table needs all rows to compute its widths. A JSON document is written
 * only when it is complete, so that stdout stays empty after a failure. Other formats are written as the rows arrive.
 */
export function createPrinter<Row>(console: Console, view: View<Row>) {
  const { format, isTerminal } = console;
  const { json = (row: Row) => stringifyJson(row) } = view;
  const columns = view.columns.filter(({ only }) => only !== (format === 'table' ? 'data' : 'table'));
  const isKept = format === 'table' || format === 'json';
  const kept: Row[] = [];
  let hasHeader = false;

  const toText = (rows: readonly Row[]): string => {
    if (format === 'ndjson') {
      const lines = rows.map((row) => `${json(row)}\n`).join('');
      return isTerminal ? sanitizeJson(lines) : lines;
    }
    const cells = rows.map((row) => columns.map(({ value }) => value(row)));
    if (format === 'lines') return cells.map((row) => tsvLine(row.map(cellText))).join('');
    if (columns.length === 0) return '';
    if (hasHeader) return toCsv(cells, console);
    hasHeader = true;
    const mark = format === 'excel' ? '\ufeff' : '';
    return mark + toCsv([columns.map(({ name }) => name), ...cells], console);
  };

  async function writeJson(): Promise<void> {
    const texts = kept.map(json);
    const text = view.isSingle ? (texts[0] ?? 'null') : `[${texts.join()}]`;
    await (isTerminal ? console.writeJson(parseJson(text)) : console.write(`${text}\n`));
  }

  /** Writes the rows as a table, and returns the names of the columns that do not fit. */
  async function writeTable(): Promise<string[]> {
    if (kept.length === 0) return [];
    const { drawTable } = await import('./table.ts');
    const drawn = columns.map((column) => toTableColumn(column, kept, isTerminal));
    const { text, shown } = drawTable(drawn, console.columns, console.colors);
    await console.write(text);
    return columns.slice(shown).map(({ name }) => name);
  }

  return {
    /** @throws CliError */
    async write(rows: readonly Row[]): Promise<void> {
      if (isKept) for (const row of rows) kept.push(row);
      else
        for (let start = 0; start < rows.length; start += PART_ROWS)
          await console.write(toText(rows.slice(start, start + PART_ROWS)));
    },
    /** Completes the output, and prints the footer as a note. @throws CliError */
    async end(footer?: Footer): Promise<void> {
      const hidden = format === 'table' ? await writeTable() : [];
      if (format === 'json') await writeJson();
      else if (['csv', 'excel', 'tsv'].includes(format) && !hasHeader) await console.write(toText([]));
      const parts = [
        console.isForPeople && footer?.summary,
        footer?.warning,
        hidden.length > 0 && `fields not shown: ${listNames(hidden)}; they need a wider terminal, or --json`,
      ].filter(Boolean);
      if (parts.length > 0) console.notice(parts.join('; '));
    },
  };
}

/** Prints all rows and the footer at once. @throws CliError */
export async function printRows<Row>(
  console: Console,
  view: View<Row>,
  rows: readonly Row[],
  footer?: Footer,
): Promise<void> {
  const printer = createPrinter(console, view);
  await printer.write(rows);
  await printer.end(footer);
}

/** Prints data that is not rows: `value` for JSON, otherwise `text`. @throws CliError */
export async function printText(console: Console, value: unknown, text: string): Promise<void> {
  if (console.format === 'json') await console.writeJson(value);
  else if (text !== '') await console.write(text);
}

/** A column of numbers is aligned to the right. */
function toTableColumn<Row>(
  { name, head = name.toUpperCase(), value, terminalValue, isFlexible, color }: Column<Row>,
  rows: readonly Row[],
  isTerminal: boolean,
): TableColumn {
  const values = rows.map((row) => (isTerminal && terminalValue ? terminalValue(value(row)) : value(row)));
  const isNumeric = values.every((each) => each === null || each === undefined || isNumber(each));
  const cells = values.map(cellText);
  return { head, cells, align: isNumeric ? 'right' : 'left', isFlexible: isFlexible ?? !isNumeric, color };
}
