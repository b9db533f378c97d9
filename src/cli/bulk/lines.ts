import { type OpenFile, readAll } from '../../store/files.ts';

const NEWLINE = 0x0a;
const CHUNK_BYTES = 2 ** 18;
// Small: rows that were tried again have their results far from those of their neighbours.
const WINDOW_BYTES = 2 ** 14;

/** A line without its newline; `bytes` are good until the next is asked for. `number` counts from 1. */
export type Line = { bytes: Buffer; offset: number; number: number; hasNewline: boolean };

/** The lines of a file, in constant memory. */
export async function* linesOf(file: OpenFile): AsyncGenerator<Line> {
  let buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  let kept = 0;
  let number = 0;
  for (let position = 0; ; ) {
    const read = await readAll(file, buffer.subarray(kept), position);
    const filled = kept + read;
    const isLast = filled < buffer.length;
    let start = 0;
    for (let end: number; start < filled; start = end + 1) {
      const newline = buffer.indexOf(NEWLINE, start);
      const hasNewline = newline >= 0 && newline < filled;
      if (!hasNewline && !isLast) break;
      end = hasNewline ? newline : filled;
      const offset = position - kept + start;
      yield { bytes: buffer.subarray(start, end), offset, number: ++number, hasNewline };
    }
    if (isLast) return;
    position += read;
    kept = filled - start;
    if (start === 0) buffer = Buffer.concat([buffer], 2 * buffer.length);
    else buffer.copyWithin(0, start, filled);
  }
}

/**
 * Reads single lines of a file that only grows. Keeps what is around the last one: asked for in the file's order,
 * most lines take no call.
 */
export class LineReader {
  #file: OpenFile;
  #window = Buffer.allocUnsafeSlow(WINDOW_BYTES);
  #from = 0;
  #filled = 0;

  constructor(file: OpenFile) {
    this.#file = file;
  }

  /** The line that begins at `offset`, without its newline. */
  async lineAt(offset: number): Promise<string> {
    const kept = this.#find(offset);
    if (kept !== undefined) return kept;
    for (;;) {
      this.#filled = await readAll(this.#file, this.#window, offset);
      this.#from = offset;
      const line = this.#find(offset);
      if (line !== undefined) return line;
      if (this.#filled < this.#window.length) return this.#window.toString('utf8', 0, this.#filled);
      this.#window = Buffer.allocUnsafeSlow(2 * this.#window.length);
    }
  }

  #find(offset: number): string | undefined {
    const start = offset - this.#from;
    if (start < 0) return undefined;
    const newline = this.#window.indexOf(NEWLINE, start);
    return newline < 0 || newline >= this.#filled ? undefined : this.#window.toString('utf8', start, newline);
  }
}
