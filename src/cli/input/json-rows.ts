import { isTooLong, jsonRow, type ReadRow, TOO_LONG } from './read-row.ts';

const code = (char: string) => char.charCodeAt(0);
const [COMMA, NEWLINE, QUOTE, BACKSLASH] = [code(','), code('\n'), code('"'), code('\\')];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [code('['), code(']'), code('{'), code('}')];

/**
 * The elements of a JSON array, as they come. Only their bounds are looked for here: each is parsed as a document of
 * its own, which keeps every digit, and tells its line. One that is not JSON is the last, as its end is not sure.
 */
export async function* jsonRows(texts: AsyncIterable<string>): AsyncGenerator<ReadRow> {
  const nesting = new Nesting();
  let place: 'before' | 'first' | 'next' | 'behind' = 'before';
  let line = 1;
  /** The element that is being read: the line of its begin, and what of it stood in earlier pieces. */
  let began: number | undefined;
  let element = '';
  for await (const text of texts) {
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      const char = text.charCodeAt(at);
      if (char === NEWLINE) line++;
      if (nesting.isOpen) {
        nesting.read(char);
      } else if (isSpace(char)) {
        // Between two elements, or behind one.
      } else if (place === 'before') {
        if (char !== OPEN_ARRAY) return yield { line, fault: 'is not a JSON array' };
        place = 'first';
      } else if (place === 'behind') {
        return yield { line, fault: 'is not JSON: text behind the array' };
      } else if (char === COMMA || char === CLOSE_ARRAY) {
        if (began !== undefined) {
          const row = jsonRow(began, element + text.slice(from, at));
          yield row;
          if ('fault' in row) return;
        } else if (char === COMMA || place === 'next') {
          return yield { line, fault: 'is not JSON: no value on one side of a comma' };
        }
        place = char === COMMA ? 'next' : 'behind';
        began = undefined;
        element = '';
      } else {
        if (began === undefined) [began, from] = [line, at];
        nesting.read(char);
      }
    }
    if (began === undefined) continue;
    element += text.slice(from);
    if (isTooLong(element)) return yield { line: began, fault: TOO_LONG };
  }
  if (place === 'first' || place === 'next') yield endless(began ?? line, element);
}

/** What is inside an element tells best why it has no end, as when it is nested too deep. */
function endless(line: number, element: string): ReadRow {
  const row = jsonRow(line, element);
  return element !== '' && 'fault' in row ? row : { line, fault: 'is not JSON: the array has no end' };
}

const isSpace = (char: number) => char === 0x20 || char === 0x09 || char === NEWLINE || char === 0x0d;

/** Where a comma or a bracket does not end the element: in a string, an object or an array. */
class Nesting {
  isOpen = false;
  #depth = 0;
  #inString = false;
  #escaped = false;

  read(char: number): void {
    if (this.#escaped) this.#escaped = false;
    else if (this.#inString) {
      if (char === BACKSLASH) this.#escaped = true;
      else if (char === QUOTE) this.#inString = false;
    } else if (char === QUOTE) this.#inString = true;
    else if (char === OPEN_OBJECT || char === OPEN_ARRAY) this.#depth++;
    else if (char === CLOSE_OBJECT || char === CLOSE_ARRAY) this.#depth--;
    this.isOpen = this.#inString || this.#depth > 0;
  }
}
