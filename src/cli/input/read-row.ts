import { parseJson } from '../../contract/json.ts';

/** Why a row is none. `kind` is the same without what only this row has in it, where the two differ. */
export type RowFault = { fault: string; kind?: string };

/** A raw value, and what it was written in: all cells of CSV are text. */
export type RowValue = { value: unknown; form: 'csv' | 'json' };

/** A row and the line (1-based) on which it begins: its raw value, or why it is none. */
export type ReadRow = { line: number } & (RowValue | RowFault);

/** The bytes of the longest row that is read: a file without line ends must not end in memory. */
export const MAX_ROW_BYTES = 1_048_576;

export const TOO_LONG = 'is longer than 1 MiB';

/** Whether a row is longer than is read. */
export function isTooLong(text: string): boolean {
  // The bytes are counted only where they matter: a character has three at most.
  return text.length * 3 > MAX_ROW_BYTES && Buffer.byteLength(text) > MAX_ROW_BYTES;
}

/** A row of the JSON text of one. */
export function jsonRow(line: number, text: string): ReadRow {
  if (isTooLong(text)) return { line, fault: TOO_LONG };
  try {
    return { line, value: parseJson(text), form: 'json' };
  } catch (error) {
    return { line, fault: `is not JSON: ${(error as Error).message}`, kind: 'is not JSON' };
  }
}
