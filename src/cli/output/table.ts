import Table from 'cli-table3';
import type { Console } from './console.ts';
import { sanitizeForTerminal, tsvLine } from './sanitize.ts';
import { fitColumns } from './table-layout.ts';
import { measureAndCut } from './width.ts';

export type Column = {
  head: string;
  align?: 'left' | 'right';
  /** A flexible column shrinks before the other columns if the terminal is narrow. */
  flexible?: boolean;
  /** The minimum width in terminal columns. The table drops its last columns rather than make this column narrower. */
  minWidth?: number;
  /** Counts the head as a cell, so that it is whole if the cells are. */
  keepHead?: boolean;
  /** Colours a cell. `shown` is the text that remains after cutting, and `cell` is the whole text. */
  format?: (shown: string, cell: string) => string;
};

/** Rows as a table, or as tab-separated values without a header. */
export function renderRows(console: Console, columns: readonly Column[], rows: readonly string[][]): string {
  return console.isTable ? renderTable(console, columns, rows).text : rows.map(tsvLine).join('');
}

/** A table that fits the width of the console. `shown` is the number of its columns that fit. */
export function renderTable(
  console: Console,
  columns: readonly Column[],
  rows: readonly string[][],
): { text: string; shown: number } {
  const terminal = console.columns;
  const measure = (text: string) =>
    measureAndCut(sanitizeForTerminal(text.slice(0, UNITS_PER_COLUMN * (terminal + 1))), terminal);
  // No more columns can fit, because each takes at least one terminal column and a gap.
  const candidates = columns.slice(0, Math.ceil(terminal / 2));
  const heads = candidates.map(({ head }) => measure(head));
  const cells = rows.map((row) => candidates.map((_, i) => measure(row[i] ?? '')));
  const { widths, gap } = fitColumns(
    candidates.map(({ flexible = false, minWidth = 1, keepHead = false }, i) => {
      const head = heads[i]?.width ?? 0;
      const first = keepHead ? head : 0;
      const content = cells.reduce((widest, row) => Math.max(widest, row[i]?.width ?? 0), first);
      return { content, head, flexible, minWidth };
    }),
    terminal,
  );
  const drawers = widths.map((limit, i) => createCellDrawer(limit, gap, candidates[i]?.align));
  const drawRow = (row: readonly Cell[], format: (text: string, i: number) => string) => {
    const line = drawers.map((draw, i) => draw(row[i] ?? EMPTY, (text) => isolate(format(text, i))));
    return `${line.join('').trimEnd()}\n`;
  };
  let text = drawRow(heads, (head) => console.colours.bold(head));
  for (const [y, row] of cells.entries())
    text += drawRow(row, (shown, i) => columns[i]?.format?.(shown, rows[y]?.[i] ?? '') ?? shown);
  return { text, shown: widths.length };
}

/** A text and its width in terminal columns, without colours. */
type Cell = { text: string; width: number };

const EMPTY: Cell = { text: '', width: 0 };

/**
 * The most UTF-16 units that a text needs for one terminal column, even with combining marks. Cells are cut to this many
 * units per terminal column before they are measured.
 */
const UNITS_PER_COLUMN = 32;

const BORDERS =
  'top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid middle';
const BORDERLESS = Object.fromEntries(BORDERS.split(' ').map((name) => [name, '']));

/**
 * Returns a function that cuts a cell to the width of its column, formats it, and aligns and pads it with cli-table3.
 * cli-table3 measures text by an older Unicode version than terminals do. Therefore, cli-table3 draws a placeholder of
 * the same width, and the cell replaces the placeholder. Drawing takes about 50 µs, so each width is drawn only once.
 */
function createCellDrawer(limit: number, gap: number, align: Column['align'] = 'left') {
  const drawn = new Map<number, string>();
  const draw = (width: number): string => {
    const style = { head: [], border: [], 'padding-left': 0, 'padding-right': gap };
    const table = new Table({ chars: BORDERLESS, colAligns: [align], colWidths: [limit + gap], style });
    table.push([`\x01${'x'.repeat(width)}`]);
    return table.toString();
  };
  return (cell: Cell, format: (text: string) => string): string => {
    const { text, width } = cell.width <= limit ? cell : measureAndCut(cell.text, limit);
    const padded = drawn.get(width) ?? draw(width);
    drawn.set(width, padded);
    return padded.replace(/\x01x*/, () => format(text));
  };
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const LEFT_TO_RIGHT_MARK = '\u200e';

/**
 * Encloses Hebrew or Arabic text in left-to-right marks, so that a terminal does not reorder the cells after it. The
 * marks have no width on any terminal, unlike the newer isolate characters.
 */
const isolate = (cell: string): string =>
  RIGHT_TO_LEFT.test(cell) ? `${LEFT_TO_RIGHT_MARK}${cell}${LEFT_TO_RIGHT_MARK}` : cell;
