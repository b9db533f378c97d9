import { basename, dirname, join } from 'node:path';
import { errnoOf, type FileSystem, type OpenFile } from '../../system/file-system.ts';
import { createFile, readFully, writeFully } from '../../system/files.ts';
import { damagedAt, NEWLINE } from './record-format.ts';
import { findRecord, type Replayed } from './replay-journal.ts';

const COPY_BYTES = 2 ** 16;

/**
 * Truncates the journal after its last valid record, if a torn write left other bytes there, and keeps those bytes in a
 * backup file. Does not sync the journal.
 *
 * @returns a warning; undefined if there was nothing to truncate
 * @throws StoreDamagedError if a valid record follows, because then this is not a torn write; nothing is changed
 */
export async function truncateTornTail(
  fileSystem: FileSystem,
  path: string,
  file: OpenFile,
  { end }: Replayed,
  size: number,
): Promise<string | undefined> {
  if (end === size) return undefined;
  const next = await findRecord(file, end, size);
  if (next !== undefined) throw damagedAt(path, end, `a valid record follows at byte ${next}`);
  const backup = await backUpTail(fileSystem, path, file, end, size);
  await file.truncate(end);
  return (
    `removed the last ${size - end} bytes of ${path} (from byte ${end}), which were not completely written when the ` +
    `server or the machine stopped; a copy is in ${backup}`
  );
}

/**
 * Writes the last record again, with its newline, and syncs the file. The last record is the only one that may be missing
 * on the disk: after a failed fsync, the system can consider pages clean that were never written.
 *
 * @returns the length of the file
 */
export async function resyncLast(file: OpenFile, { last, end, lacksNewline }: Replayed): Promise<number> {
  const length = end - last;
  const line = Buffer.alloc(length + (lacksNewline ? 1 : 0), NEWLINE);
  await readFully(file, line.subarray(0, length), last);
  await writeFully(file, line, last);
  await file.datasync();
  return last + line.length;
}

/** Copies the end of the file to a new file, with a number appended to its name if the name is taken. */
async function backUpTail(
  fileSystem: FileSystem,
  path: string,
  file: OpenFile,
  start: number,
  size: number,
): Promise<string> {
  const name = join(dirname(path), `${basename(path, '.ndjson')}.torn-${start}`);
  for (let count = 1; ; count++) {
    const backup = count === 1 ? name : `${name}-${count}`;
    try {
      await createFile(fileSystem, backup, readParts(file, start, size));
      await fileSystem.syncDirectory(dirname(path));
      return backup;
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
  }
}

/** Reads the bytes from `start` to `end`. Each part is valid until the next one is read. */
async function* readParts(file: OpenFile, start: number, end: number): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafeSlow(COPY_BYTES);
  for (let position = start; position < end; ) {
    const read = await readFully(file, buffer, position);
    if (read === 0) return;
    yield buffer.subarray(0, read);
    position += read;
  }
}
