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

/** Takes the records of a journal, one after the other. */
export interface RecordSink {
  /** The bytes from `start` to `end` are a record without its newline; `offset` is where it begins in the file. */
  record(bytes: Buffer, start: number, end: number, offset: number): void;
  /** The bytes of the records before, which may have been changed, are used anew unless this says true. */
  settle(): boolean;
}

/**
 * Hands over each record of the file up to the first that is not valid. Takes a constant amount of memory; the next part
 * is being read while the one before is looked at.
 */
export async function replay(file: OpenFile, size: number, sink: RecordSink): Promise<Replayed> {
  const state = { last: 0, end: 0, bare: false };
  let buffer = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, size + 1));
  let other = Buffer.allocUnsafeSlow(buffer.length);
  let filled = await readAll(file, buffer, 0);
  for (let position = filled; filled > 0; ) {
    const isLast = filled < buffer.length;
    const end = isLast ? filled : buffer.lastIndexOf(NEWLINE, filled - 1) + 1;
    const rest = filled - end;
    if (rest > MAX_LINE_BYTES) break;
    if (other.length < 2 * rest) other = Buffer.allocUnsafeSlow(2 * rest);
    buffer.copy(other, 0, end, filled);
    const reading = isLast ? Promise.resolve(0) : readAll(file, other.subarray(rest), position);
    let isValid = false;
    let isTaken = false;
    try {
      isValid = takeRecords(buffer, end, state, sink);
      isTaken = sink.settle();
    } finally {
      const read = await reading;
      position += read;
      filled = rest + read;
    }
    if (!isValid || isLast) break;
    [buffer, other] = [other, isTaken ? Buffer.allocUnsafeSlow(CHUNK_BYTES) : buffer];
  }
  return state;
}

/** Takes the records up to the byte `to`; false where one is not valid. */
function takeRecords(bytes: Buffer, to: number, state: Replayed, sink: RecordSink): boolean {
  let start = 0;
  while (start < to) {
    const newline = indexOfNewline(bytes, start, to);
    const end = newline < 0 ? to : newline;
    if (!isRecord(bytes, start, end)) break;
    sink.record(bytes, start, end, state.end);
    state.bare = newline < 0;
    state.last = state.end;
    state.end += end - start + (state.bare ? 0 : 1);
    start = end + 1;
  }
  return start >= to;
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
