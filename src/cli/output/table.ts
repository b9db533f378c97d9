import Table from 'cli-table3';
import displayWidth from 'string-width';
import type { Console } from './console.ts';
import { tabSeparatedLine, visible } from './visible.ts';

/** A column: how its cells are shown on a terminal. `wide` ones give way first when the terminal is narrow. */
export type Column = {
  head: string;
  align?: 'left' | 'right';
  wide?: boolean;
  paint?: (cell: string) => string;
};

const GAP = 2;
const NARROWEST = 8;

/** Rows for a person: a table that fits the terminal; for a program: tab-separated, no header, nothing cut. */
export function renderRows(console: Console, columns: readonly Column[], rows: readonly string[][]): string {
  if (!console.isTerminal) return rows.map(tabSeparatedLine).join('');
  const cells = rows.map((row) => row.map(visible));
  const table = new Table({
    head: columns.map(({ head }) => console.colours.bold(head)),
    colAligns: columns.map(({ align = 'left' }) => align),
    colWidths: columnWidths(columns, cells, console.columns),
    chars: BORDERLESS,
    style: { head: [], border: [], compact: true, 'padding-left': 0, 'padding-right': GAP },
  });
  table.push(...cells.map((row) => row.map((cell, i) => columns[i]?.paint?.(cell) ?? cell)));
  return `${table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')}\n`;
}

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

/** Natural widths; where they exceed the terminal, the widest of the wide columns gives way until they do not. */
function columnWidths(columns: readonly Column[], rows: readonly string[][], terminal: number): number[] {
  const widths = columns.map(
    ({ head }, i) =>
      GAP + Math.max(...[head, ...rows.map((row) => row[i] ?? '')].map((text) => displayWidth(text))),
  );
  let excess = widths.reduce((sum, width) => sum + width, 0) - terminal;
  for (; excess > 0; excess--) {
    const widest = widths.reduce((best, width, i) => (isWider(width, i, best) ? i : best), -1);
    if (widest === -1) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;

  function isWider(width: number, i: number, best: number): boolean {
    return columns[i]?.wide === true && width > Math.max(NARROWEST, widths[best] ?? 0);
  }
}
