import { parseJson } from '../../contract/json.ts';
import { MAX_ROW_BYTES, type RawRow, ROW_TOO_LONG } from './row.ts';

const code = (char: string) => char.charCodeAt(0);
const [COMMA, NEWLINE, QUOTE, BACKSLASH] = [code(','), code('\n'), code('"'), code('\\')];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [code('['), code(']'), code('{'), code('}')];
const SPACES: unknown[] = [code(' '), code('\t'), NEWLINE, code('\r')];

/** The rows of NDJSON: one JSON document per line. Blank lines are skipped. */
export function* ndjsonRows(text: Buffer): Generator<RawRow> {
  let line = 1;
  for (let start = 0; start < text.length; line++) {
    const newline = text.indexOf(NEWLINE, start);
    const end = newline === -1 ? text.length : newline;
    const row = text.subarray(start, end);
    if (row.some((byte) => !SPACES.includes(byte))) yield parseRow(line, row);
    start = end + 1;
  }
}

/**
 * The elements of a JSON array. Each element is parsed on its own, so that the line of an invalid element is known. An
 * invalid element ends the reading.
 */
export function* jsonRows(text: Buffer): Generator<RawRow> {
  let [at, line] = [0, 1];
  /** Moves to a position, skips the whitespace that follows, and counts lines. */
  const moveTo = (position: number) => {
    for (; at < position || SPACES.includes(text[at]); at++) if (text[at] === NEWLINE) line++;
  };
  moveTo(0);
  if (at === text.length) return;
  if (text[at] !== OPEN_ARRAY) return yield { line, error: 'not a JSON array' };
  for (let isFirst = true; text[at] !== CLOSE_ARRAY; isFirst = false) {
    moveTo(at + 1);
    const end = findElementEnd(text, at);
    const row = end > at ? parseRow(line, text.subarray(at, end)) : undefined;
    if (row && 'error' in row) return yield row;
    if (end === text.length) return yield { line, error: 'invalid JSON: the array is not closed' };
    if (row) yield row;
    else if (!isFirst || text[end] === COMMA)
      return yield { line, error: 'invalid JSON: a value is missing before or after a comma' };
    moveTo(end);
  }
  moveTo(at + 1);
  if (at < text.length) yield { line, error: 'invalid JSON: text after the array' };
}

/** The position of the comma or bracket after the element that starts at `at`, or of the end of the text. */
function findElementEnd(text: Buffer, at: number): number {
  let [depth, isInString] = [0, false];
  for (; at < text.length; at++) {
    const char = text[at];
    if (isInString) {
      if (char === BACKSLASH) at++;
      else if (char === QUOTE) isInString = false;
    } else if (char === QUOTE) isInString = true;
    else if (char === OPEN_OBJECT || char === OPEN_ARRAY) depth++;
    else if (depth > 0) {
      if (char === CLOSE_OBJECT || char === CLOSE_ARRAY) depth--;
    } else if (char === COMMA || char === CLOSE_ARRAY) return at;
  }
  return text.length;
}

function parseRow(line: number, text: Buffer): RawRow {
  if (text.length > MAX_ROW_BYTES) return { line, error: ROW_TOO_LONG };
  try {
    return { line, value: parseJson(text.toString()) };
  } catch (error) {
    return { line, error: `invalid JSON: ${(error as Error).message}` };
  }
}
