const BITS = 12;
const MASK = 2 ** BITS - 1;

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

  get(row: number, word: number): number {
    return this.#blocks[(row >>> BITS) - this.#dropped]?.[this.#width * (row & MASK) + word] ?? 0;
  }

  set(row: number, word: number, value: number): void {
    const block = this.#blocks[(row >>> BITS) - this.#dropped];
    if (block) block[this.#width * (row & MASK) + word] = value;
  }

  /** Gives back the memory of rows below `row`: they must not be asked for again. */
  drop(row: number): void {
    while (this.#dropped < row >>> BITS) {
      this.#blocks.shift();
      this.#dropped++;
    }
  }
}
