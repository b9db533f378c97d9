import { join } from 'node:path';
import { INT64_MAX } from '../../contract/json.ts';
import type { SteadyClock } from '../../system/clock.ts';
import {
  type FileSystem,
  type OpenFile,
  readBytes,
  readFully,
  readRange,
  withFile,
} from '../../system/file-system.ts';
import { MIN_TEXT_BYTES } from '../stored-text.ts';
import {
  damageError,
  decodeHeader,
  hasValidChecksum,
  JOURNAL_FILE,
  type JournalHeader,
  LINE_START,
  MAX_LINE_BYTES,
  parseRecord,
} from './format.ts';
import { Journal } from './journal.ts';

const CHUNK_BYTES = 2 ** 20;
/** The longest header that `readJournalHeader` reads. Headers are much shorter. */
const MAX_HEADER_BYTES = 4_096;
const NEWLINE = 0x0a;

type ReadSettings = {
  files: FileSystem;
  directory: string;
  clock: SteadyClock;
  /** The name of the journal's file, by default `JOURNAL_FILE`. */
  name?: string | undefined;
  /** If aborted, reading fails with its reason. */
  signal?: AbortSignal | undefined;
};

/**
 * Reads the journal of a directory, even while another process appends to it. `tornEnd` of the result describes what an
 * interrupted write can have left at the end. Any other damage is an error.
 *
 * @throws StoreError if the journal is damaged or of a newer version, a system error, or the reason of `signal`
 */
export async function readJournal({
  files,
  directory,
  clock,
  name = JOURNAL_FILE,
  signal,
}: ReadSettings): Promise<Journal> {
  const path = join(directory, name);
  const [now, elapsed] = [clock.now(), clock.elapsed()];
  return withFile(await files.open(path, 'read'), async (file) => {
    // Another process may be writing the bytes after this size.
    const { dev, ino, size } = await file.stat();
    let journal: Journal | undefined;
    const end = await readLines(file, size, signal, (line, start) => {
      if (!hasValidChecksum(line)) return false;
      journal ??= new Journal(path, decodeHeader(line, path), { dev, ino, size });
      journal.lastLine.start = start;
      if (start > 0) {
        const record = parseRecord(line, path, start);
        // A time in the future was written while the clock was ahead.
        journal.add(record, elapsed - Math.max(0, now - record.at), elapsed);
      }
      return true;
    });
    if (!journal) throw noHeaderError(path);
    journal.lastLine.bytes = await readRange(file, journal.lastLine.start, end);
    if (end < size) {
      throwIfDamaged(path, await readRange(file, end, Math.min(size, end + MAX_LINE_BYTES + 1)), end);
      journal.tornEnd = { start: end, bytes: size - end };
    }
    // A torn end can have contained at most this many animals, with a comma between two of them.
    const minNextId = journal.nextId + BigInt(Math.floor((size - end + 1) / (MIN_TEXT_BYTES + 1)));
    journal.minNextId = minNextId > INT64_MAX ? INT64_MAX + 1n : minNextId;
    return journal;
  });
}

/** Reads only the first line of a journal. @throws StoreError (damaged, or of a newer version), or a system error */
export async function readJournalHeader(directory: string, files: FileSystem): Promise<JournalHeader> {
  const path = join(directory, JOURNAL_FILE);
  const start = await readBytes(files, path, MAX_HEADER_BYTES);
  const line = start?.subarray(0, Math.max(0, start.indexOf(NEWLINE))) ?? Buffer.alloc(0);
  if (!hasValidChecksum(line)) throw noHeaderError(path);
  return decodeHeader(line, path);
}

const noHeaderError = (path: string) => damageError(path, 0, 'the first line is not a journal header');

/**
 * Reads the first `size` bytes chunk by chunk. Passes to `use` each line, without its newline, and the position of its
 * first byte. Stops when `use` returns false. Can also stop at a line that is longer than `MAX_LINE_BYTES`.
 *
 * @throws a system error, or the reason of `signal`
 * @returns the end of the last line for which `use` returned true, with its newline
 */
async function readLines(
  file: OpenFile,
  size: number,
  signal: AbortSignal | undefined,
  use: (line: Buffer, start: number) => boolean,
): Promise<number> {
  // Use one buffer for all chunks. New ones would wait for the garbage collector, and need 50 MB more.
  let buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  let filled = 0;
  let position = 0;
  while (position + filled < size && filled <= MAX_LINE_BYTES) {
    signal?.throwIfAborted();
    if (filled === buffer.length) buffer = Buffer.concat([buffer], 2 * filled);
    const read = await readFully(file, buffer.subarray(filled, size - position), position + filled);
    // Another program has made the file shorter.
    if (read === 0) break;
    filled += read;
    const isLast = position + filled === size;
    const bytes = buffer.subarray(0, filled);
    let start = 0;
    while (start < filled) {
      const newline = bytes.indexOf(NEWLINE, start);
      if (newline < 0 && !isLast) break;
      const end = newline < 0 ? filled : newline;
      if (!use(bytes.subarray(start, end), position + start)) return position + start;
      start = Math.min(end + 1, filled);
    }
    buffer.copyWithin(0, start, filled);
    filled -= start;
    position += start;
  }
  return position;
}

/** @throws StoreError if the bytes cannot come from one interrupted write */
function throwIfDamaged(path: string, bytes: Buffer, start: number): void {
  // An interrupted write leaves fewer bytes than this.
  if (bytes.length > MAX_LINE_BYTES)
    throw damageError(path, start, `more than ${MAX_LINE_BYTES} bytes are not valid`);
  let end = bytes.length;
  while (bytes[end - 1] === 0) end--;
  let lineEnd = 0;
  // Search inside lines too, because a newline may be damaged.
  for (let at = bytes.indexOf(LINE_START, 1); at >= 0; at = bytes.indexOf(LINE_START, at + 1)) {
    if (lineEnd < at) lineEnd = bytes.indexOf(NEWLINE, at);
    if (lineEnd < 0) lineEnd = end;
    if (!hasValidChecksum(bytes.subarray(at, lineEnd))) continue;
    throw damageError(path, start, `no valid record, but one follows at byte ${start + at}`);
  }
}
