import { describe, expect, test } from 'vitest';
import type { RowFormat } from '../../src/cli/input/row-formats.ts';
import { type ReadRow, readRows } from '../../src/cli/input/rows.ts';

/** A text, and its rows in short. */
export type RowsCase = [text: string, rows: [line: number, row: unknown][]];

async function* chunksOf(...chunks: Uint8Array[]) {
  yield* chunks;
}

/** All rows of an input. */
export async function readAll(input: AsyncIterable<Uint8Array>, format: RowFormat | undefined) {
  const rows: ReadRow[] = [];
  for await (const row of readRows(input, format)) rows.push(row);
  return rows;
}

/** All rows of an input that comes in these chunks. */
export const rowsOf = (format: RowFormat | undefined, ...chunks: (string | Uint8Array)[]) =>
  readAll(chunksOf(...chunks.map((chunk) => Buffer.from(chunk))), format);

/** Each byte as a chunk of its own. */
export const bytesOf = (text: string | Uint8Array) => [...Buffer.from(text)].map((byte) => Buffer.of(byte));

/** Rows in short: their line, and the value or the fault. */
export const inShort = (rows: ReadRow[]) =>
  rows.map((row) => [row.line, 'fault' in row ? row.fault : row.value]);

/** Tests that each text has these rows, in one piece and however it is cut into two. */
export function testRows(format: RowFormat, cases: RowsCase[]): void {
  describe.each(cases)(`${format} %j`, (text, rows) => {
    test('in one piece', async () => {
      expect(inShort(await rowsOf(format, text))).toEqual(rows);
    });

    test('however it is cut', async () => {
      const bytes = Buffer.from(text);
      const cuts = [bytesOf(text)];
      for (let at = 1; at < bytes.length; at++) cuts.push([bytes.subarray(0, at), bytes.subarray(at)]);
      for (const chunks of cuts) expect(inShort(await rowsOf(format, ...chunks))).toEqual(rows);
    });
  });
}
