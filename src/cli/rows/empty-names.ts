const MAX_LINES_SHOWN = 10;

/** A name that is invisible in a list. U+2800 is the blank Braille pattern. */
const EMPTY = /^[\s\u2800]*$/;

/** Collects the rows whose name is empty. They are valid, but probably a mistake. */
export class EmptyNames {
  #count = 0;
  readonly #lines: number[] = [];

  check(line: number, name: string): void {
    if (!EMPTY.test(name)) return;
    this.#count++;
    if (this.#lines.length < MAX_LINES_SHOWN) this.#lines.push(line);
  }

  /** `2 rows have an empty name: lines 43, 51`; undefined if there are none. */
  describe(): string | undefined {
    if (this.#count === 0) return undefined;
    const lines = this.#lines.join(', ');
    if (this.#count === 1) return `1 row has an empty name: line ${lines}`;
    const more = this.#count - this.#lines.length;
    return `${this.#count} rows have an empty name: lines ${lines}${more > 0 ? ` and ${more} more` : ''}`;
  }
}
