import { basename, dirname, join } from 'node:path';
import { type FileSystem, isMissing, type OpenFile } from '../../system/file-system.ts';
import { readFully, replaceFile, withFile, writeFully } from '../../system/files.ts';
import { NEWLINE } from './record-format.ts';
import type { Replayed } from './replay-journal.ts';

const COPY_BYTES = 2 ** 16;

/**
 * Truncates the journal after its last valid record, if other bytes are there, and keeps those bytes in a backup file.
 * Does not sync the journal.
 *
 * @returns a warning; undefined if there was nothing to truncate
 */
export async function truncateTornTail(
  fileSystem: FileSystem,
  path: string,
  file: OpenFile,
  { end }: Replayed,
  size: number,
): Promise<string | undefined> {
  if (end === size) return undefined;
  const backup = await backUpTail(fileSystem, path, file, end, size);
  await file.truncate(end);
  return (
    `removed the last ${size - end} bytes of ${path} (from byte ${end}), which are not a valid record: a torn write or a ` +
    `later change; ${size - end} bytes saved in ${backup}`
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

/**
 * Copies the end of the file to a new file, with a number appended to its name if the name is taken. An earlier start
 * that failed afterwards may have made the same copy, which is then used.
 */
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
    const existing = await isCopy(fileSystem, backup, readParts(file, start, size), size - start);
    if (existing === false) continue;
    if (existing) await fileSystem.syncDirectory(dirname(path));
    else await replaceFile(fileSystem, backup, readParts(file, start, size));
    return backup;
  }
}

/** Whether a file consists of these bytes. Undefined if there is no such file. */
async function isCopy(
  fileSystem: FileSystem,
  path: string,
  parts: AsyncIterable<Buffer>,
  size: number,
): Promise<boolean | undefined> {
  try {
    return await withFile(await fileSystem.open(path, 'read'), async (copy) => {
      if ((await copy.stat()).size !== size) return false;
      let position = 0;
      for await (const part of parts) {
        const bytes = Buffer.alloc(part.length);
        await readFully(copy, bytes, position);
        if (!bytes.equals(part)) return false;
        position += part.length;
      }
      return true;
    });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
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
