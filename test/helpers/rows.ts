import { describe, expect, test } from 'vitest';
import type { RowFormat } from '../../src/cli/rows/formats.ts';
import { readRows } from '../../src/cli/rows/read-rows.ts';
import type { RawRow } from '../../src/cli/rows/row.ts';

/** An input, and its expected rows: the line of each row, and its value or error. */
export type RowsCase = [text: string, ...rows: [line: number, row: unknown][]];

async function* chunksOf(...chunks: Uint8Array[]) {
  yield* chunks;
}

/** All rows of an input. */
export async function readAll(input: AsyncIterable<Uint8Array>, format: RowFormat | undefined) {
  const rows: RawRow[] = [];
  for await (const row of readRows(input, format)) rows.push(row);
  return rows;
}

/** All rows of an input that arrives in these chunks. */
export const rowsOf = (format: RowFormat | undefined, ...chunks: (string | Uint8Array)[]) =>
  readAll(chunksOf(...chunks.map((chunk) => Buffer.from(chunk))), format);

/** Splits a text into chunks of one byte. */
export const bytesOf = (text: string | Uint8Array) => [...Buffer.from(text)].map((byte) => Buffer.of(byte));

/** The line of each row, with its value or error. */
export const inShort = (rows: RawRow[]) =>
  rows.map((row) => [row.line, 'error' in row ? row.error : row.value]);

/** Tests that each text has these rows, in one chunk and split into two at every position. */
export function testRows(format: RowFormat, cases: RowsCase[]): void {
  describe.each(cases)(`${format} %j`, (text, ...rows) => {
    test('in one chunk', async () => {
      expect(inShort(await rowsOf(format, text))).toEqual(rows);
    });

    test('split at every position', async () => {
      const bytes = Buffer.from(text);
      const cuts = [bytesOf(text)];
      for (let at = 1; at < bytes.length; at++) cuts.push([bytes.subarray(0, at), bytes.subarray(at)]);
      for (const chunks of cuts) expect(inShort(await rowsOf(format, ...chunks))).toEqual(rows);
    });
  });
}
