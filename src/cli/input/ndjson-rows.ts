import { isTooLong, jsonRow, type ReadRow, TOO_LONG } from './read-row.ts';

/** One JSON document a line; blank lines are none. */
export async function* ndjsonRows(texts: AsyncIterable<string>): AsyncGenerator<ReadRow> {
  let line = 1;
  let rest = '';
  for await (const text of texts) {
    const [first = '', ...more] = text.split('\n');
    rest += first;
    for (const next of more) {
      if (isTooLong(rest)) break;
      if (rest.trim() !== '') yield jsonRow(line, rest);
      line++;
      rest = next;
    }
    if (isTooLong(rest)) return yield { line, fault: TOO_LONG };
  }
  if (rest.trim() !== '') yield jsonRow(line, rest);
}
