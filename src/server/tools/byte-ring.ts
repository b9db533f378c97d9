/**
 * Keeps the latest texts, up to `size` bytes, outside the heap of V8. As objects, the texts would live long enough to be
 * copied by the garbage collector, which takes longer than to write them here.
 */
export class ByteRing {
  #size: number;
  #bytes: Buffer | undefined;
  /** The position of the next write. Positions never start again at 0, and some are skipped at the end of the ring. */
  #written = 0;

  constructor(size: number) {
    this.#size = size;
  }

  /** Writes at most `limit` bytes of a text. Puts the positions where they begin and end into two columns of `range`. */
  write(text: string, encoding: 'latin1' | 'utf8', limit: number, range: Float64Array, column: number): void {
    // The operating system provides this memory only as far as it is written to.
    this.#bytes ??= Buffer.allocUnsafeSlow(this.#size);
    const length = Math.min(limit, encoding === 'latin1' ? text.length : text.length * 3);
    // A text is never split: if it may not fit before the end of the ring, it is written to the beginning.
    const left = this.#size - (this.#written % this.#size);
    if (length > left) this.#written += left;
    range[column] = this.#written;
    this.#written += this.#bytes.write(text, this.#written % this.#size, length, encoding);
    range[column + 1] = this.#written;
  }

  /** The text between two positions; undefined if it was overwritten. */
  read(start: number, end: number, encoding: 'latin1' | 'utf8'): string | undefined {
    if (start < this.#written - this.#size) return undefined;
    const first = start % this.#size;
    return this.#bytes?.toString(encoding, first, first + end - start);
  }
}
