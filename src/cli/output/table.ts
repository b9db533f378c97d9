import type { ChalkInstance } from 'chalk';
import Table from 'cli-table3';
import stringWidth from 'string-width';
import { sanitizeForTerminal } from './text.ts';

/** A column of a table. `cells` are the texts of the rows. */
export type TableColumn = {
  head: string;
  cells: readonly string[];
  align: 'left' | 'right';
  /** A flexible column is cut if the table does not fit. The cells of other columns are cut only to the width of the table. */
  isFlexible: boolean;
  color?: ((cell: string) => 'green' | 'yellow' | 'dim' | 'red' | undefined) | undefined;
};

const GAP = 2;
/** In a wide enough table, flexible columns have at least this many terminal columns, enough to distinguish most texts. */
const FLEXIBLE_MIN = 8;
/** Texts are first cut to this many UTF-16 units per terminal column of the table, enough for letters with combining marks. */
const UNITS_PER_COLUMN = 32;

/**
 * Draws a table at most `width` terminal columns wide. Columns that do not fit are left out, from the last one on.
 *
 * @returns the text and the number of columns that fit
 */
export function drawTable(
  columns: readonly TableColumn[],
  width: number,
  colors: ChalkInstance,
): { text: string; shown: number } {
  const start = (text: string) => sanitizeForTerminal(text.slice(0, UNITS_PER_COLUMN * width));
  const texts = columns.map(({ head, cells }) => [head, ...cells].map(start));
  const widths = fitColumns(
    texts.map((column) => column.reduce((widest, text) => Math.max(widest, stringWidth(text)), 1)),
    columns.map(({ isFlexible }) => isFlexible),
    width,
  );
  const formatRow = (_: unknown, row: number) =>
    widths.map((limit, i) => {
      const cell = cutToWidth(texts[i]?.[row] ?? '', limit);
      const color = row === 0 ? 'bold' : columns[i]?.color?.(columns[i]?.cells[row - 1] ?? '');
      return isolate(color === undefined ? cell : colors[color](cell));
    });
  const rows = Array.from(texts[0] ?? [], formatRow);
  return { text: drawRows(rows, widths, columns), shown: widths.length };
}

/** The widths of the columns that fit. If the table is too wide, the widest flexible columns shrink first. */
function fitColumns(natural: number[], isFlexible: readonly boolean[], width: number): number[] {
  const smallest = natural.map((each, i) => Math.min(each, isFlexible[i] ? FLEXIBLE_MIN : each, width));
  const tableWidth = (columns: readonly number[]) => columns.reduce((sum, each) => sum + GAP + each, -GAP);
  let count = natural.length;
  while (count > 1 && tableWidth(smallest.slice(0, count)) > width) count--;
  const widths = natural.slice(0, count);
  for (let excess = tableWidth(widths) - width; excess > 0; excess--) {
    const shrinkable = widths.map((each, i) => (each > (smallest[i] ?? 0) ? each : 0));
    const widest = shrinkable.indexOf(Math.max(...shrinkable));
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

const BORDERS =
  'top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid middle';
const BORDERLESS = Object.fromEntries(BORDERS.split(' ').map((name) => [name, '']));

/** cli-table3 compares all rows of a table with each other, so a long table is drawn in parts of this many rows. */
const ROWS_AT_ONCE = 100;

function drawRows(rows: string[][], widths: readonly number[], columns: readonly TableColumn[]): string {
  const colAligns = columns.map(({ align }) => align);
  const style = { head: [], border: [], 'padding-left': 0, 'padding-right': GAP };
  const colWidths = widths.map((limit) => limit + GAP);
  let text = '';
  for (let start = 0; start < rows.length; start += ROWS_AT_ONCE) {
    const table = new Table({ chars: BORDERLESS, colAligns, colWidths, style });
    table.push(...rows.slice(start, start + ROWS_AT_ONCE));
    for (const line of table.toString().split('\n')) text += `${line.trimEnd()}\n`;
  }
  return text;
}

/** Cuts a text between graphemes to a maximum width in terminal columns. A cut text ends with an ellipsis. */
function cutToWidth(text: string, columns: number): string {
  if (stringWidth(text) <= columns) return text;
  let width = 1;
  let end = 0;
  for (const { segment, index } of new Intl.Segmenter().segment(text)) {
    width += stringWidth(segment);
    if (width > columns) break;
    end = index + segment.length;
  }
  return `${text.slice(0, end)}…`;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const LEFT_TO_RIGHT_MARK = '\u200e';

/**
 * Encloses right-to-left text, such as Hebrew, in left-to-right marks, so that a terminal does not reorder the cells after
 * it. The newer isolate characters are not used, because some terminals show them with a width.
 */
const isolate = (cell: string): string =>
  RIGHT_TO_LEFT.test(cell) ? `${LEFT_TO_RIGHT_MARK}${cell}${LEFT_TO_RIGHT_MARK}` : cell;
