const CHUNK_BYTES = 2 ** 23;
/** A buffer becomes part of the arena, instead of being copied, if at least this fraction of it is used. */
const MIN_FILL = 0.8;
const EMPTY = Buffer.alloc(0);

/** Where a text is in a TextArena. `start` and `length` are in bytes. */
export type TextRef = { chunk: number; start: number; length: number };

/**
 * Append-only memory for UTF-8 texts. A million strings would need twice the memory and slow down garbage collection.
 * Texts are never moved or changed, so a reference stays valid.
 */
export class TextArena {
  #chunks: Buffer[] = [];
  /** The first unused byte of the last chunk. */
  #free = 0;

  /** Copies the bytes from `start` to `end`, plus one unused byte after them. Returns where the copy starts. */
  append(bytes: Buffer, start: number, end: number): { chunk: number; start: number } {
    const length = end - start + 1;
    let chunk = this.#chunks.at(-1);
    if (!chunk || this.#free + length > chunk.length) {
      chunk = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, length));
      this.#chunks.push(chunk);
      this.#free = 0;
    }
    const copy = this.#free;
    bytes.copy(chunk, copy, start, end);
    this.#free += length;
    return { chunk: this.#chunks.length - 1, start: copy };
  }

  /**
   * Takes over the whole buffer without copying, if enough of it is used by the bytes from `start` to `end`. Returns the
   * chunk number. If undefined, the buffer still belongs to the caller.
   */
  appendOwned(bytes: Buffer, start: number, end: number): number | undefined {
    if (end - start < MIN_FILL * bytes.length) return undefined;
    this.#chunks.push(bytes);
    this.#free = bytes.length;
    return this.#chunks.length - 1;
  }

  chunk(number: number): Buffer {
    return this.#chunks[number] ?? EMPTY;
  }

  read({ chunk, start, length }: TextRef): string {
    return this.chunk(chunk).toString('utf8', start, start + length);
  }
}
