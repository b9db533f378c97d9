import { join } from 'node:path';
import { INT64_MAX } from '../../contract/json.ts';
import type { SteadyClock } from '../../system/clock.ts';
import {
  type FileStatus,
  type FileSystem,
  type OpenFile,
  readFully,
  readParts,
  withFile,
} from '../../system/file-system.ts';
import { MIN_TEXT_BYTES } from '../animal-text.ts';
import type { OrderJson, TornEnd } from '../store.ts';
import {
  damageError,
  decodeHeader,
  hasValidChecksum,
  JOURNAL_FILE,
  type JournalHeader,
  type JournalRecord,
  LINE_START,
  MAX_LINE_BYTES,
  parseRecord,
} from './format.ts';
import { IdempotencyKeys } from './idempotency-keys.ts';
import { PetsInMemory } from './pets-in-memory.ts';

const CHUNK_BYTES = 2 ** 20;
/** An interrupted write leaves fewer bytes than this. Zeros at the end do not count: a file system may add many. */
const MAX_TORN_BYTES = MAX_LINE_BYTES;
/** The longest header that `readJournalHeader` reads. Headers are much shorter. */
const MAX_HEADER_BYTES = 4_096;
/** The search for records after an invalid line takes less than a second: it checks at most this many bytes. */
const MAX_SEARCHED_BYTES = 16 * MAX_TORN_BYTES;
const NEWLINE = 0x0a;

/** A journal in memory. Its writer keeps it up to date. */
export class Journal {
  readonly path: string;
  readonly header: JournalHeader;
  /** Which file was read, and its size then. */
  readonly file: FileStatus;
  readonly pets = new PetsInMemory();
  readonly keys = new IdempotencyKeys();
  readonly orders: OrderJson[] = [];
  /** The sequence number of the last record. */
  seq = 0;
  /** The highest id in a record; 0 if there is none. */
  lastId: number | bigint = 0;
  /** Lower ids may not be issued, because animals in a torn end can have had them. */
  minNextId = 1n;
  /** The last valid line that was read, and where it starts. Its newline may be missing. */
  lastLine: { start: number; bytes: Buffer } = { start: 0, bytes: Buffer.alloc(0) };
  tornEnd: TornEnd | undefined;

  constructor(path: string, header: JournalHeader, file: FileStatus) {
    this.path = path;
    this.header = header;
    this.file = file;
  }

  get nextId(): bigint {
    return this.lastId < this.minNextId ? this.minNextId : BigInt(this.lastId) + 1n;
  }

  /**
   * Adds a record that was read or written.
   *
   * @param at when it was written, and `now`, by the same clock as `IdempotencyKeys`
   * @throws StoreError if it cannot follow the records before it
   */
  add({ seq, texts, pets, keys, order, lastId }: Omit<JournalRecord, 'at'>, at: number, now: number): void {
    const damaged = (reason: string) => damageError(this.path, this.lastLine.start, reason);
    if (seq !== this.seq + 1) throw damaged(`expected record ${this.seq + 1}, found ${seq}`);
    this.seq = seq;
    for (const { id } of pets) {
      if (id <= this.lastId) {
        throw damaged(`animal ${id} comes after animal ${this.lastId}, but ids must ascend`);
      }
      this.lastId = id;
    }
    const before = this.pets.size;
    this.pets.append({ texts, pets });
    for (const key of keys) this.keys.add(key, before + key.pet, at, now);
    if (order !== undefined) this.orders.push(order);
    if (lastId !== undefined && lastId > this.lastId) this.lastId = lastId;
  }
}

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
 * Reads the journal of a directory, also while another process appends to it. `tornEnd` describes what an interrupted
 * write can have left at the end. Any other damage is an error.
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
      throwIfDamaged(path, await readWithoutZeros(file, end, size), end);
      journal.tornEnd = { start: end, bytes: size - end };
    }
    let lost = size - end;
    // An earlier server may have been killed after it had removed a torn end, and before it had written the next id.
    for (const backup of await files.readdir(directory))
      if (backup.startsWith(backupNamePrefix(end)))
        lost = Math.max(lost, (await files.stat(join(directory, backup))).size);
    // The lost bytes can have contained so many animals, each with a comma.
    const minNextId = journal.nextId + BigInt(Math.floor((lost + 1) / (MIN_TEXT_BYTES + 1)));
    journal.minNextId = minNextId > INT64_MAX ? INT64_MAX + 1n : minNextId;
    return journal;
  });
}

/** Reads only the first line of a journal. @throws StoreError (damaged, or of a newer version), or a system error */
export async function readJournalHeader(directory: string, files: FileSystem): Promise<JournalHeader> {
  const path = join(directory, JOURNAL_FILE);
  const start = await withFile(await files.open(path, 'read'), (file) =>
    readRange(file, 0, MAX_HEADER_BYTES),
  );
  const line = start.subarray(0, Math.max(0, start.indexOf(NEWLINE)));
  if (!hasValidChecksum(line)) throw noHeaderError(path);
  return decodeHeader(line, path);
}

const noHeaderError = (path: string) => damageError(path, 0, 'the first line is not a journal header');

/**
 * Reads the first `size` bytes chunk by chunk. Passes to `use` each line, without its newline, and the position of its
 * first byte. Stops when `use` returns false, or a line is longer than `MAX_LINE_BYTES`.
 *
 * @throws the reason of `signal`
 * @returns the end of the last line for which `use` returned true, with its newline
 */
async function readLines(
  file: OpenFile,
  size: number,
  signal: AbortSignal | undefined,
  use: (line: Buffer, start: number) => boolean,
): Promise<number> {
  // The same buffer for all chunks. New ones would wait for the garbage collector, and need 50 MB more.
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

async function readRange(file: OpenFile, start: number, end: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(end - start);
  return bytes.subarray(0, await readFully(file, bytes, start));
}

/** The start of the names of backups of a torn end that began at the byte `start`. */
export const backupNamePrefix = (start: number): string => `journal.torn-${start}-`;

/** @throws StoreError if the bytes cannot come from one interrupted write */
function throwIfDamaged(path: string, bytes: Buffer, start: number): void {
  if (bytes.length > MAX_TORN_BYTES) throw damageError(path, start, `${bytes.length} bytes are not valid`);
  let searched = 0;
  // Search inside lines too, because a newline may be damaged.
  for (let at = bytes.indexOf(LINE_START, 1); at >= 0; at = bytes.indexOf(LINE_START, at + 1)) {
    const newline = bytes.indexOf(NEWLINE, at);
    const line = bytes.subarray(at, newline < 0 ? bytes.length : newline);
    // Each candidate is checked to the end of its line. Many of them in one line would take hours, but no write leaves
    // such a line.
    searched += line.length;
    if (searched > MAX_SEARCHED_BYTES)
      throw damageError(path, start, 'no valid record, only the beginnings of many incomplete records');
    if (!hasValidChecksum(line)) continue;
    throw damageError(path, start, `no valid record, but one follows at byte ${start + at}`);
  }
}

/** Reads the bytes from `start` to `end` without the zeros at their end. May omit bytes after `MAX_TORN_BYTES`. */
async function readWithoutZeros(file: OpenFile, start: number, end: number): Promise<Buffer> {
  let length = 0;
  let position = 0;
  for await (const part of readParts(file, start, end)) {
    let used = part.length;
    while (used > 0 && part[used - 1] === 0) used--;
    if (used > 0) length = position + used;
    if (length > MAX_TORN_BYTES) break;
    position += part.length;
  }
  return readRange(file, start, start + length);
}
