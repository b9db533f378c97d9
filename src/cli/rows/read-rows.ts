import { csvRows } from './csv-rows.ts';
import { jsonRows, ndjsonRows } from './json-rows.ts';
import { MAX_ROW_BYTES, type RawRow, type RowFormat } from './row.ts';

const READERS: Record<RowFormat, (text: Buffer) => Iterable<RawRow>> = {
  csv: csvRows,
  ndjson: ndjsonRows,
  json: jsonRows,
};

/**
 * Parses the rows of a UTF-8 text one by one. Continues after a row with an error, unless the start of the next row is
 * unknown, as after a row over 1 MiB, or after a syntax error in CSV or in a JSON array.
 */
export const readRows = (text: Buffer, format: RowFormat | undefined): Iterable<RawRow> =>
  READERS[format ?? detectFormat(text)](text);

/** `[` starts JSON, `{` starts NDJSON, and anything else is CSV. */
export function detectFormat(text: Buffer): RowFormat {
  const [first] = text.toString('utf8', 0, MAX_ROW_BYTES).trimStart();
  if (first === '[') return 'json';
  return first === '{' ? 'ndjson' : 'csv';
}
