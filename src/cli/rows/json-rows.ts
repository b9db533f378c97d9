import { parseJson } from '../../contract/json.ts';
import { MAX_ROW_BYTES, type RawRow, TOO_LONG } from './row.ts';

/** The rows of NDJSON: one JSON document per line. Blank lines are skipped. */
export async function* ndjsonRows(texts: AsyncIterable<string>): AsyncGenerator<RawRow> {
  let line = 1;
  let row = '';
  for await (const text of texts) {
    const [first = '', ...more] = text.split('\n');
    row += first;
    for (const next of more) {
      if (isTooLong(row)) break;
      if (row.trim() !== '') yield parseJsonRow(line, row);
      line++;
      row = next;
    }
    if (isTooLong(row)) return yield { line, error: TOO_LONG };
  }
  if (row.trim() !== '') yield parseJsonRow(line, row);
}

const code = (char: string) => char.charCodeAt(0);
const [COMMA, NEWLINE, QUOTE, BACKSLASH] = [code(','), code('\n'), code('"'), code('\\')];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [code('['), code(']'), code('{'), code('}')];

/**
 * The elements of a JSON array, streamed. This finds only where each element ends; the element is then parsed as a
 * document, which keeps all digits of numbers and gives errors a line. An invalid element ends the reading.
 */
export async function* jsonRows(texts: AsyncIterable<string>): AsyncGenerator<RawRow> {
  /** How many arrays and objects are open: 0 outside the array, 1 between its elements. */
  let depth = 0;
  let [isInString, isEscaped, isAfterComma, isEnded] = [false, false, false, false];
  let line = 1;
  /** The line on which the current element starts, and its text in earlier chunks. */
  let startLine: number | undefined;
  let element = '';
  for await (const text of texts) {
    let start = 0;
    for (let at = 0; at < text.length; at++) {
      const char = text.charCodeAt(at);
      if (char === NEWLINE) line++;
      if (isEscaped) {
        isEscaped = false;
      } else if (isInString) {
        isEscaped = char === BACKSLASH;
        isInString = char !== QUOTE;
      } else if (isSpace(char)) {
        // Whitespace around values.
      } else if (depth === 0) {
        if (isEnded) return yield { line, error: 'invalid JSON: text after the array' };
        if (char !== OPEN_ARRAY) return yield { line, error: 'not a JSON array' };
        depth = 1;
      } else if (depth === 1 && (char === COMMA || char === CLOSE_ARRAY)) {
        if (startLine !== undefined) {
          const row = parseJsonRow(startLine, element + text.slice(start, at));
          yield row;
          if ('error' in row) return;
        } else if (char === COMMA || isAfterComma) {
          return yield { line, error: 'invalid JSON: a value is missing before or after a comma' };
        }
        isAfterComma = char === COMMA;
        isEnded = char === CLOSE_ARRAY;
        if (isEnded) depth = 0;
        startLine = undefined;
        element = '';
      } else {
        if (startLine === undefined) [startLine, start] = [line, at];
        if (char === QUOTE) isInString = true;
        else if (char === OPEN_OBJECT || char === OPEN_ARRAY) depth++;
        else if (depth > 1 && (char === CLOSE_OBJECT || char === CLOSE_ARRAY)) depth--;
      }
    }
    if (startLine === undefined) continue;
    element += text.slice(start);
    if (isTooLong(element)) return yield { line: startLine, error: TOO_LONG };
  }
  if (depth > 0) yield unclosedArray(startLine ?? line, element);
}

/** If the last element is invalid, its own error is more useful. */
function unclosedArray(line: number, element: string): RawRow {
  const row = parseJsonRow(line, element);
  return element !== '' && 'error' in row ? row : { line, error: 'invalid JSON: the array is not closed' };
}

const isSpace = (char: number) => char === 0x20 || char === 0x09 || char === NEWLINE || char === 0x0d;

function isTooLong(text: string): boolean {
  // A UTF-16 unit takes at most three bytes of UTF-8: most texts need no exact count.
  return text.length * 3 > MAX_ROW_BYTES && Buffer.byteLength(text) > MAX_ROW_BYTES;
}

function parseJsonRow(line: number, text: string): RawRow {
  if (isTooLong(text)) return { line, error: TOO_LONG };
  try {
    return { line, value: parseJson(text), format: 'json' };
  } catch (error) {
    return { line, error: `invalid JSON: ${(error as Error).message}`, kind: 'invalid JSON' };
  }
}
