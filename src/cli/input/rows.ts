import { extname } from 'node:path';
import { csvRows } from './csv-rows.ts';
import { jsonRows } from './json-rows.ts';
import { ndjsonRows } from './ndjson-rows.ts';
import type { ReadRow } from './read-row.ts';
import { type RowFormat, rowFormats } from './row-formats.ts';
import { readHead, startingWith, utf8Text } from './text.ts';

export type { ReadRow } from './read-row.ts';

const READERS: Record<RowFormat, (texts: AsyncGenerator<string>) => AsyncGenerator<ReadRow>> = {
  csv: csvRows,
  ndjson: ndjsonRows,
  json: jsonRows,
};

/** By the extension (.csv .ndjson .jsonl .json, any case); undefined where it tells nothing. */
export function formatOfPath(path: string): RowFormat | undefined {
  const name = extname(path).slice(1).toLowerCase();
  return name === 'jsonl' ? 'ndjson' : rowFormats.find((format) => format === name);
}

/**
 * Reads rows one by one, in memory that does not grow with their number. A row with a fault is followed by the next
 * one where the format lets it be found: behind a quote or an array that does not end, or a row of more than 1 MiB,
 * there is none.
 *
 * @param format undefined: told by the first characters (`[` is json, `{` is ndjson, all else csv)
 * @throws NotTextError, and what reading the input throws
 */
export async function* readRows(
  input: AsyncIterable<Uint8Array>,
  format: RowFormat | undefined,
): AsyncGenerator<ReadRow> {
  const texts = utf8Text(input);
  try {
    const head = await readHead(texts, /\S./s);
    yield* READERS[format ?? formatOfText(head)](startingWith(head, texts));
  } finally {
    // A reading that ends early leaves no file open.
    await texts.return(undefined);
  }
}

function formatOfText(head: string): RowFormat {
  const [first] = head.trimStart();
  if (first === '[') return 'json';
  return first === '{' ? 'ndjson' : 'csv';
}
