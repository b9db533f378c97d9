/** More lines are not worth naming. */
const LINES_SHOWN = 10;

/** A name that no list shows; U+2800 is the blank of Braille. */
const EMPTY = /^[\s\u2800]*$/;

/** Rows without a name that can be seen: the service takes them, but whoever wrote the file hardly meant it. */
export class EmptyNames {
  #count = 0;
  readonly #lines: number[] = [];

  look(line: number, name: string): void {
    if (!EMPTY.test(name)) return;
    this.#count++;
    if (this.#lines.length < LINES_SHOWN) this.#lines.push(line);
  }

  /** `2 rows have an empty name: lines 43, 51`; undefined where there are none. */
  describe(): string | undefined {
    if (this.#count === 0) return undefined;
    const lines = this.#lines.join(', ');
    if (this.#count === 1) return `a row has an empty name: line ${lines}`;
    const more = this.#count - this.#lines.length;
    return `${this.#count} rows have an empty name: lines ${lines}${more > 0 ? ` and ${more} more` : ''}`;
  }
}
