import { parseJson } from '../../contract/json.ts';

/** A row and the line (1-based) on which it begins: its raw value, or why it is none. */
export type ReadRow = { line: number; value: unknown } | { line: number; fault: string };

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
    return { line, value: parseJson(text) };
  } catch (error) {
    return { line, fault: `is not JSON: ${(error as Error).message}` };
  }
}
