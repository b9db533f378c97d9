import Table from 'cli-table3';
import type { Console } from './console.ts';
import { sanitizeForTerminal, tsvLine } from './sanitize.ts';
import { fitColumns } from './table-layout.ts';
import { measureAndCut } from './width.ts';

export type Column = {
  head: string;
  align?: 'left' | 'right';
  /** Shrinks before the other columns if the terminal is narrow. */
  flexible?: boolean;
  /** The table drops its last columns rather than make this one narrower than this many terminal columns. */
  minWidth?: number;
  /** Colours a cell. `shown` is what remains of it after cutting. */
  format?: (shown: string, cell: string) => string;
};

/** Rows as a table on a terminal, and as tab-separated values without a header elsewhere. */
export function renderRows(console: Console, columns: readonly Column[], rows: readonly string[][]): string {
  return console.isTerminal ? renderTable(console, columns, rows).text : rows.map(tsvLine).join('');
}

/** A table that fits the terminal. `shown` is the number of its columns that fit. */
export function renderTable(
  console: Console,
  columns: readonly Column[],
  rows: readonly string[][],
): { text: string; shown: number } {
  const terminal = console.columns;
  const measure = (text: string) =>
    measureAndCut(sanitizeForTerminal(text.slice(0, UNITS_PER_COLUMN * (terminal + 1))), terminal);
  // Each column takes at least one terminal column and a gap.
  const candidates = columns.slice(0, Math.ceil(terminal / 2));
  const heads = candidates.map(({ head }) => measure(head));
  const cells = rows.map((row) => candidates.map((_, i) => measure(row[i] ?? '')));
  const { widths, gap } = fitColumns(
    candidates.map(({ flexible = false, minWidth = 1 }, i) => ({
      content: cells.reduce((widest, row) => Math.max(widest, row[i]?.width ?? 0), 0),
      head: heads[i]?.width ?? 0,
      flexible,
      minWidth,
    })),
    terminal,
  );
  const cutRow = (row: readonly Cell[], format: (text: string, i: number) => string) =>
    widths.map((limit, i) => {
      const cell = row[i] ?? EMPTY;
      const { text, width } = cell.width <= limit ? cell : measureAndCut(cell.text, limit);
      return { text: isolate(format(text, i)), width };
    });
  const shownRows = [
    cutRow(heads, (head) => console.colours.bold(head)),
    ...cells.map((row, y) =>
      cutRow(row, (text, i) => columns[i]?.format?.(text, rows[y]?.[i] ?? '') ?? text),
    ),
  ];
  const text = renderBorderless(shownRows, {
    colAligns: columns.slice(0, widths.length).map(({ align = 'left' }) => align),
    colWidths: widths.map((width) => width + gap),
    style: { head: [], border: [], compact: true, 'padding-left': 0, 'padding-right': gap },
  });
  return { text, shown: widths.length };
}

/** A text and its width in terminal columns, without colours. */
type Cell = { text: string; width: number };

const EMPTY: Cell = { text: '', width: 0 };

/**
 * More UTF-16 units than any text needs for one terminal column, combining marks included. Cells are cut to
 * this many units per terminal column before they are measured.
 */
const UNITS_PER_COLUMN = 32;

const BORDERS =
  'top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid middle';
const BORDERLESS = Object.fromEntries(BORDERS.split(' ').map((name) => [name, '']));

/** The time that cli-table3 takes is quadratic in the number of rows, so that long tables are rendered in parts. */
const ROWS_PER_PART = 20;

/**
 * Aligns and pads the cells with cli-table3. It measures text by an older Unicode version than terminals do: instead of
 * each cell, it gets a placeholder of the same width, which the cell then replaces.
 */
function renderBorderless(rows: readonly Cell[][], options: Table.TableConstructorOptions): string {
  let text = '';
  for (let first = 0; first < rows.length; first += ROWS_PER_PART) {
    const part = rows.slice(first, first + ROWS_PER_PART);
    const table = new Table({ ...options, chars: BORDERLESS });
    table.push(...part.map((row) => row.map(({ width }) => `\x01${'x'.repeat(width)}`)));
    const cells = part.flat().values();
    const lines = table.toString().replace(/\x01x*/g, () => cells.next().value?.text ?? '');
    for (const line of lines.split('\n')) text += `${line.trimEnd()}\n`;
  }
  return text;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const LEFT_TO_RIGHT_MARK = '\u200e';

/**
 * Encloses Hebrew or Arabic text in left-to-right marks, so that a terminal does not reorder the cells after it. The
 * marks have no width on any terminal, unlike the newer isolate characters.
 */
const isolate = (cell: string): string =>
  RIGHT_TO_LEFT.test(cell) ? `${LEFT_TO_RIGHT_MARK}${cell}${LEFT_TO_RIGHT_MARK}` : cell;
