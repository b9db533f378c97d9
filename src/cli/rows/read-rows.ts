import { extname } from 'node:path';
import { csvRows } from './csv-rows.ts';
import { type RowFormat, rowFormats } from './formats.ts';
import { jsonRows, ndjsonRows } from './json-rows.ts';
import type { RawRow } from './row.ts';
import { prepend, readUntil, utf8Text } from './utf8-text.ts';

const READERS: Record<RowFormat, (texts: AsyncGenerator<string>) => AsyncGenerator<RawRow>> = {
  csv: csvRows,
  ndjson: ndjsonRows,
  json: jsonRows,
};

/** The format for a file extension (.csv, .ndjson, .jsonl or .json, in any case), or undefined. */
export function formatOfPath(path: string): RowFormat | undefined {
  const name = extname(path).slice(1).toLowerCase();
  return name === 'jsonl' ? 'ndjson' : rowFormats.find((format) => format === name);
}

/**
 * Reads rows one by one, in constant memory. Continues after a row with an error, unless the start of the next row is
 * unknown: after a CSV or JSON array syntax error, or a row over 1 MiB.
 *
 * @param format if undefined, it is detected: `[` starts JSON, `{` starts NDJSON, anything else is CSV
 * @throws NotTextError, or an error of the input
 */
export async function* readRows(
  input: AsyncIterable<Uint8Array>,
  format: RowFormat | undefined,
): AsyncGenerator<RawRow> {
  const texts = utf8Text(input);
  try {
    const head = await readUntil(texts, /\S./s);
    yield* READERS[format ?? detectFormat(head)](prepend(head, texts));
  } finally {
    // Closes the input if the caller stops early.
    await texts.return(undefined);
  }
}

function detectFormat(head: string): RowFormat {
  const [first] = head.trimStart();
  if (first === '[') return 'json';
  return first === '{' ? 'ndjson' : 'csv';
}
