import type { OpenFile } from '../../system/file-system.ts';
import { readFully } from '../../system/files.ts';
import { hasValidChecksum, MAX_LINE_BYTES, NEWLINE, RECORD_PREFIX } from './record-format.ts';

const CHUNK_BYTES = 2 ** 20;

/** How far the valid records of a journal reach. Offsets are in bytes from the start of the file. */
export type Replayed = {
  /** The start of the last valid record. */
  last: number;
  /** The end of the last valid record, including its newline. */
  end: number;
  /** Whether the last valid record is at the end of the file and has no newline. */
  lacksNewline: boolean;
};

/** Receives the records of a journal in their order. */
export interface RecordSink {
  /** `bytes` contains the record, without its newline, from `start` to `end`. The record starts at `offset` of the file. */
  record(bytes: Buffer, start: number, end: number, offset: number): void;
  /** Called after the last record of each chunk. Return true to keep the buffer; otherwise it gets other data. */
  commit(): boolean;
}

/**
 * Passes each record of the file to the sink, up to the first that is not valid. Reads chunk by chunk: while the sink
 * processes a chunk, the next one is read.
 */
export async function replayJournal(file: OpenFile, size: number, sink: RecordSink): Promise<Replayed> {
  const state = { last: 0, end: 0, lacksNewline: false };
  let buffer = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, size + 1));
  let nextBuffer = Buffer.allocUnsafeSlow(buffer.length);
  let filled = await readFully(file, buffer, 0);
  for (let position = filled; filled > 0; ) {
    const isLast = filled < buffer.length;
    const end = isLast ? filled : buffer.lastIndexOf(NEWLINE, filled - 1) + 1;
    // An incomplete line at the end of the chunk moves to the start of the next one.
    const rest = filled - end;
    if (rest > MAX_LINE_BYTES) break;
    if (nextBuffer.length < 2 * rest) nextBuffer = Buffer.allocUnsafeSlow(2 * rest);
    buffer.copy(nextBuffer, 0, end, filled);
    const reading = isLast ? Promise.resolve(0) : readFully(file, nextBuffer.subarray(rest), position);
    let isValid = false;
    let isKept = false;
    try {
      isValid = passRecords(buffer, end, state, sink);
      isKept = sink.commit();
    } finally {
      const read = await reading;
      position += read;
      filled = rest + read;
    }
    if (!isValid || isLast) break;
    [buffer, nextBuffer] = [nextBuffer, isKept ? Buffer.allocUnsafeSlow(CHUNK_BYTES) : buffer];
  }
  return state;
}

/** Passes the records before the byte `end` to the sink. Returns false at the first record that is not valid. */
function passRecords(bytes: Buffer, end: number, state: Replayed, sink: RecordSink): boolean {
  let start = 0;
  while (start < end) {
    const newline = indexOfNewline(bytes, start, end);
    const lineEnd = newline < 0 ? end : newline;
    if (!hasValidChecksum(bytes, start, lineEnd)) return false;
    sink.record(bytes, start, lineEnd, state.end);
    state.lacksNewline = newline < 0;
    state.last = state.end;
    state.end += lineEnd - start + (state.lacksNewline ? 0 : 1);
    start = lineEnd + 1;
  }
  return true;
}

/**
 * The offset of the first valid record that starts after the byte `from`; undefined if there is none. Looks inside lines
 * too, because a newline may be damaged.
 */
export async function findRecord(file: OpenFile, from: number, size: number): Promise<number | undefined> {
  const buffer = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, size + 1));
  for (let position = from + 1; position < size; position += buffer.length - RECORD_PREFIX.length + 1) {
    const read = await readFully(file, buffer, position);
    const part = buffer.subarray(0, read);
    for (let at = part.indexOf(RECORD_PREFIX); at >= 0; at = part.indexOf(RECORD_PREFIX, at + 1)) {
      if (await isRecordAt(file, position + at)) return position + at;
    }
    if (read < buffer.length) break;
  }
  return undefined;
}

async function isRecordAt(file: OpenFile, offset: number): Promise<boolean> {
  for (let length = 2 ** 16; length <= MAX_LINE_BYTES; length *= 4) {
    const buffer = Buffer.allocUnsafeSlow(length);
    const read = await readFully(file, buffer, offset);
    const newline = indexOfNewline(buffer, 0, read);
    if (newline >= 0 || read < length) return hasValidChecksum(buffer, 0, newline < 0 ? read : newline);
  }
  return false;
}

function indexOfNewline(buffer: Buffer, from: number, end: number): number {
  const at = buffer.indexOf(NEWLINE, from);
  return at < end ? at : -1;
}
