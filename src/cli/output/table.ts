import Table from 'cli-table3';
import type { Console } from './console.ts';
import { fitColumns } from './table-layout.ts';
import { tabSeparatedLine, visible } from './visible.ts';
import { measureAndCut } from './width.ts';

/** A column: how its cells are shown on a terminal. `wide` ones give way first when the terminal is narrow. */
export type Column = {
  head: string;
  align?: 'left' | 'right';
  wide?: boolean;
  /** Narrower than this many columns it is of no use; rather the table's last columns are left out. */
  atLeast?: number;
  /** Colours a cell, which may have been cut, by what stands in it. */
  paint?: (shown: string, cell: string) => string;
};

/** Rows for a person: a table that fits the terminal; for a program: tab-separated, no header, nothing cut. */
export function renderRows(console: Console, columns: readonly Column[], rows: readonly string[][]): string {
  return console.isTerminal ? renderTable(console, columns, rows).text : rows.map(tabSeparatedLine).join('');
}

/** A table that fits the terminal, and how many of its columns it has: all but where they could not be told apart. */
export function renderTable(
  console: Console,
  columns: readonly Column[],
  rows: readonly string[][],
): { text: string; shown: number } {
  const terminal = console.columns;
  const measure = (text: string) =>
    measureAndCut(visible(text.slice(0, UNITS_A_COLUMN * (terminal + 1))), terminal);
  // Each column takes one of the terminal's, and a gap.
  const candidates = columns.slice(0, Math.ceil(terminal / 2));
  const heads = candidates.map(({ head }) => measure(head));
  const cells = rows.map((row) => candidates.map((_, i) => measure(row[i] ?? '')));
  const { widths, gap } = fitColumns(
    candidates.map(({ wide = false, atLeast = 1 }, i) => ({
      content: cells.reduce((widest, row) => Math.max(widest, row[i]?.width ?? 0), 0),
      head: heads[i]?.width ?? 0,
      wide,
      atLeast,
    })),
    terminal,
  );
  const inWidth = (row: readonly Cell[], paint: (text: string, i: number) => string) =>
    widths.map((limit, i) => {
      const cell = row[i] ?? EMPTY;
      const { text, width } = cell.width <= limit ? cell : measureAndCut(cell.text, limit);
      return { text: isolate(paint(text, i)), width };
    });
  const lines = layOut(
    [
      inWidth(heads, (head) => console.colours.bold(head)),
      ...cells.map((row, y) =>
        inWidth(row, (text, i) => columns[i]?.paint?.(text, rows[y]?.[i] ?? '') ?? text),
      ),
    ],
    {
      colAligns: columns.slice(0, widths.length).map(({ align = 'left' }) => align),
      colWidths: widths.map((width) => width + gap),
      chars: BORDERLESS,
      style: { head: [], border: [], compact: true, 'padding-left': 0, 'padding-right': gap },
    },
  );
  return { text: lines.map((line) => `${line.trimEnd()}\n`).join(''), shown: widths.length };
}

/** What is shown, and the columns that it takes without its colours and marks. */
type Cell = { text: string; width: number };

const EMPTY: Cell = { text: '', width: 0 };

/**
 * More UTF-16 than anything needs that takes one column, marks and joiners counted in: what stands behind in a long cell is
 * wider than the terminal in any case, and need not be looked at.
 */
const UNITS_A_COLUMN = 32;

/** The library compares each cell with all before it; parts of a table are laid out as fast as they are long. */
const ROWS_AT_ONCE = 50;

function layOut(rows: readonly Cell[][], options: Table.TableConstructorOptions): string[] {
  const lines: string[] = [];
  for (let first = 0; first < rows.length; first += ROWS_AT_ONCE) {
    const table = new Table(options);
    const texts: string[] = [];
    table.push(
      ...rows.slice(first, first + ROWS_AT_ONCE).map((row) => row.map((cell) => standIn(cell, texts))),
    );
    let next = 0;
    lines.push(
      ...table
        .toString()
        .replace(STAND_IN, () => texts[next++] ?? '')
        .split('\n'),
    );
  }
  return lines;
}

const STAND_IN = /\x01x*/g;

/**
 * The library measures by an older Unicode than terminals do, and would cut and align by it: it gets a text of ASCII that
 * is as wide, and the cell comes in its place afterwards. No cell has a control of its own.
 */
function standIn({ text, width }: Cell, texts: string[]): string {
  if (/^[ -~]*$/.test(text)) return text;
  texts.push(text);
  return `\x01${'x'.repeat(width)}`;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const LEFT_TO_RIGHT_MARK = '\u200e';

/**
 * Hebrew or Arabic in a cell would draw the numbers of the next into its own order, or turn the whole line around. Between
 * two of these marks it does not; they take no room on any terminal, which is not so of the newer isolates.
 */
const isolate = (cell: string): string =>
  RIGHT_TO_LEFT.test(cell) ? `${LEFT_TO_RIGHT_MARK}${cell}${LEFT_TO_RIGHT_MARK}` : cell;

const BORDERLESS = Object.fromEntries(
  [
    'top',
    'top-mid',
    'top-left',
    'top-right',
    'bottom',
    'bottom-mid',
    'bottom-left',
    'bottom-right',
    'left',
    'left-mid',
    'mid',
    'mid-mid',
    'right',
    'right-mid',
    'middle',
  ].map((name) => [name, '']),
);
