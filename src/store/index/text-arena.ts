/** Each new chunk doubles the memory, within these limits. So a small store is cheap to replace again and again. */
const MIN_CHUNK_BYTES = 2 ** 16;
const MAX_CHUNK_BYTES = 2 ** 23;
/** A buffer is copied instead of taken if less than this fraction of its bytes is used. */
const MIN_FILL = 0.8;
const EMPTY = Buffer.alloc(0);

/** Where a text is in a TextArena. `start` and `length` are in bytes. */
export type TextRef = { chunk: number; start: number; length: number };

/**
 * Where the texts of a buffer were added: in `chunk`, `shift` bytes after their offsets in the buffer. `isTaken` means
 * that the buffer itself became that chunk.
 */
export type TextPlacement = { chunk: number; shift: number; isTaken: boolean };

/**
 * Append-only memory for UTF-8 texts. A million strings would need twice the memory and slow down garbage collection.
 * Texts are never moved or changed, so a reference stays valid.
 */
export class TextArena {
  #chunks: Buffer[] = [];
  /** The length of all chunks, in bytes. */
  #size = 0;
  /** The first unused byte of the last chunk. */
  #free = 0;

  /**
   * Adds the bytes from `start` to `end`, and reserves the byte after them for a separator. With `mayTake`, the whole
   * buffer becomes part of the arena if most of it is used. A start with a million animals then takes 8 % less time.
   */
  append(bytes: Buffer, start: number, end: number, mayTake: boolean): TextPlacement {
    const length = end - start + 1;
    if (mayTake && length > MIN_FILL * bytes.length) {
      this.#push(bytes);
      this.#free = bytes.length;
      return { chunk: this.#chunks.length - 1, shift: 0, isTaken: true };
    }
    let chunk = this.#chunks.at(-1);
    if (!chunk || this.#free + length > chunk.length) {
      const size = Math.min(Math.max(this.#size, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES);
      chunk = Buffer.allocUnsafeSlow(Math.max(size, length));
      this.#push(chunk);
      this.#free = 0;
    }
    const shift = this.#free - start;
    bytes.copy(chunk, this.#free, start, end);
    this.#free += length;
    return { chunk: this.#chunks.length - 1, shift, isTaken: false };
  }

  #push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
  }

  chunk(number: number): Buffer {
    return this.#chunks[number] ?? EMPTY;
  }

  read({ chunk, start, length }: TextRef): string {
    return this.chunk(chunk).toString('utf8', start, start + length);
  }
}
