import { type OpenFile, readAll } from './files.ts';
import { isRecord, MARK, MAX_LINE_BYTES, NEWLINE } from './journal-format.ts';

const CHUNK_BYTES = 2 ** 20;

/** How far a journal's records go, in bytes from its beginning. */
export type Replayed = {
  /** Where the last valid record begins. */
  last: number;
  /** Behind the last valid record and its newline, if it has one. */
  end: number;
  /** Whether that record lacks its newline: it is complete, and the last. */
  bare: boolean;
};

/**
 * Hands over each record of the file, the bytes from `start` to `end` without the newline and the record's offset in
 * the file, up to the first that is not valid. Takes a constant amount of memory; the bytes are good only during the
 * call.
 */
export async function replay(
  file: OpenFile,
  size: number,
  apply: (bytes: Buffer, start: number, end: number, offset: number) => void,
): Promise<Replayed> {
  const state = { last: 0, end: 0, bare: false };
  let buffer = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, size + 1));
  let filled = 0;
  for (let position = 0; position < size; ) {
    const read = await readAll(file, buffer.subarray(filled), position);
    if (read === 0) break;
    position += read;
    filled += read;
    let start = 0;
    for (let newline: number; ; start = newline + 1) {
      newline = indexOfNewline(buffer, start, filled);
      const atEnd = newline < 0 && position >= size && start < filled;
      if (newline < 0 && !atEnd) break;
      const end = atEnd ? filled : newline;
      if (!isRecord(buffer, start, end)) return state;
      apply(buffer, start, end, state.end);
      state.last = state.end;
      state.end += end - start + (atEnd ? 0 : 1);
      state.bare = atEnd;
      if (atEnd) return state;
    }
    buffer.copyWithin(0, start, filled);
    filled -= start;
    if (filled === buffer.length) {
      if (filled > MAX_LINE_BYTES) return state;
      buffer = Buffer.concat([buffer], 2 * filled);
    }
  }
  return state;
}

/** The offset of the first valid record that begins behind `from`, wherever in a line: damage may eat newlines. */
export async function findRecord(file: OpenFile, from: number, size: number): Promise<number | undefined> {
  const buffer = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, size + 1));
  for (let position = from + 1; position < size; position += buffer.length - MARK.length + 1) {
    const read = await readAll(file, buffer, position);
    const part = buffer.subarray(0, read);
    for (let at = part.indexOf(MARK); at >= 0; at = part.indexOf(MARK, at + 1)) {
      if (await isRecordAt(file, position + at)) return position + at;
    }
    if (read < buffer.length) break;
  }
  return undefined;
}

async function isRecordAt(file: OpenFile, offset: number): Promise<boolean> {
  for (let length = 2 ** 16; length <= MAX_LINE_BYTES; length *= 4) {
    const buffer = Buffer.allocUnsafeSlow(length);
    const read = await readAll(file, buffer, offset);
    const newline = indexOfNewline(buffer, 0, read);
    if (newline >= 0 || read < length) return isRecord(buffer, 0, newline < 0 ? read : newline);
  }
  return false;
}

function indexOfNewline(buffer: Buffer, from: number, end: number): number {
  const at = buffer.indexOf(NEWLINE, from);
  return at < end ? at : -1;
}
