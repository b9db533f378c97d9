import { expect, test } from 'vitest';
import { utf8Text } from '../../src/cli/rows/input-file.ts';
import { readRows } from '../../src/cli/rows/read-rows.ts';
import type { RawRow, RowFormat } from '../../src/cli/rows/row.ts';

/** An input text, and the line and the value or error of each expected row. */
export type RowsCase = [text: string, ...rows: [line: number, row: unknown][]];

export const rowsOf = (format: RowFormat | undefined, text: string): RawRow[] => [
  ...readRows(utf8Text(Buffer.from(text), 'FILE', format), format),
];

/** The line of each row, with its value or error. */
export const inShort = (rows: RawRow[]) =>
  rows.map((row) => [row.line, 'error' in row ? row.error : row.value]);

/** Declares a test for each text, which checks its rows. */
export function testRows(format: RowFormat, cases: RowsCase[]): void {
  test.each(cases)(`${format} %j`, (text, ...rows) => {
    expect(inShort(rowsOf(format, text))).toEqual(rows);
  });
}
