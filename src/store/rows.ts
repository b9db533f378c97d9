const BITS = 12;
const MASK = 2 ** BITS - 1;
const NONE = new Uint32Array(0);

/**
 * Rows of unsigned 32-bit words, counted from 0. They grow by a block at a time: nothing is copied, and memory never
 * holds an old copy beside a new one.
 */
export class Rows {
  readonly #width: number;
  #blocks: Uint32Array[] = [];
  /** How many blocks were dropped. */
  #dropped = 0;
  #size = 0;

  /** `width` is the number of words in a row. */
  constructor(width: number) {
    this.#width = width;
  }

  get size(): number {
    return this.#size;
  }

  /** Says the number of the new row, whose words are 0. */
  add(): number {
    const row = this.#size++;
    if ((row & MASK) === 0) this.#blocks.push(new Uint32Array(this.#width << BITS));
    return row;
  }

  /** The words among which those of a row are, `at(row)` and following. */
  block(row: number): Uint32Array {
    return this.#blocks[(row >>> BITS) - this.#dropped] ?? NONE;
  }

  at(row: number): number {
    return this.#width * (row & MASK);
  }

  get(row: number, word: number): number {
    return this.block(row)[this.at(row) + word] ?? 0;
  }

  set(row: number, word: number, value: number): void {
    this.block(row)[this.at(row) + word] = value;
  }

  /** Gives back the memory of rows below `row`: they must not be asked for again. */
  drop(row: number): void {
    while (this.#dropped < row >>> BITS) {
      this.#blocks.shift();
      this.#dropped++;
    }
  }
}
