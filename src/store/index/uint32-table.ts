const BLOCK_BITS = 12;
const BLOCK_MASK = 2 ** BLOCK_BITS - 1;
const EMPTY = new Uint32Array(0);

/**
 * A growing table of unsigned 32-bit words. Rows are numbered from 0. The table grows in blocks, so that growing copies
 * nothing.
 */
export class Uint32Table {
  readonly #columns: number;
  #blocks: Uint32Array[] = [];
  #droppedBlocks = 0;
  #size = 0;

  constructor(columns: number) {
    this.#columns = columns;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a row of zeros and returns its number. */
  add(): number {
    const row = this.#size++;
    if ((row & BLOCK_MASK) === 0) this.#blocks.push(new Uint32Array(this.#columns << BLOCK_BITS));
    return row;
  }

  /** The array that contains a row, from the index `offset(row)` on. */
  block(row: number): Uint32Array {
    return this.#blocks[(row >>> BLOCK_BITS) - this.#droppedBlocks] ?? EMPTY;
  }

  offset(row: number): number {
    return this.#columns * (row & BLOCK_MASK);
  }

  get(row: number, column: number): number {
    return this.block(row)[this.offset(row) + column] ?? 0;
  }

  /** Removes the rows from `row` on. */
  truncate(row: number): void {
    for (; this.#size > row; this.#size--) {
      const last = this.#size - 1;
      this.block(last).fill(0, this.offset(last), this.offset(last) + this.#columns);
      if ((last & BLOCK_MASK) === 0) this.#blocks.pop();
    }
  }

  /** Frees the blocks in which all rows are below `row`. Rows below `row` must not be used again. */
  drop(row: number): void {
    while (this.#droppedBlocks < row >>> BLOCK_BITS) {
      this.#blocks.shift();
      this.#droppedBlocks++;
    }
  }
}
