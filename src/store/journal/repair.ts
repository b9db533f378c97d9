import { basename, dirname, join } from 'node:path';
import { INT64_MAX } from '../../contract/int64.ts';
import type { FileSystem, OpenFile } from '../../system/file-system.ts';
import { readFully, readParts, replaceFile, withFileIfExists, writeFully } from '../../system/files.ts';
import { NEWLINE } from './record-format.ts';
import type { Replayed } from './replay-journal.ts';

const ID = /\{"id":(-?\d{1,19}),/g;
/** An animal's text up to its id, as `ID` matches it, is shorter than this. */
const MAX_ID_BYTES = 32;

/** The names of backups of the bytes from `start` on: `journal.torn-100`, `journal.torn-100-2` and so on. */
function* backupNames(path: string, start: number): Generator<string> {
  const name = join(dirname(path), `${basename(path, '.ndjson')}.torn-${start}`);
  yield name;
  for (let count = 2; ; count++) yield `${name}-${count}`;
}

/**
 * Saves the bytes from `start` to `size` of the journal in a new file. An earlier start that failed afterwards may have
 * made the same copy, which is then used.
 *
 * @returns the path of the copy
 */
export async function saveTail(
  fileSystem: FileSystem,
  path: string,
  file: OpenFile,
  start: number,
  size: number,
): Promise<string> {
  for (const backup of backupNames(path, start)) {
    const isCopy = await hasBytes(fileSystem, backup, readParts(file, start, size), size - start);
    if (isCopy === false) continue;
    if (isCopy) await fileSystem.syncDirectory(dirname(path));
    else await replaceFile(fileSystem, backup, readParts(file, start, size));
    return backup;
  }
  throw new Error('unreachable');
}

/**
 * The largest id of an animal in the copies that `saveTail` has made of the bytes from `start` on. Undefined if they
 * contain no id.
 */
export async function lastSavedId(
  fileSystem: FileSystem,
  path: string,
  start: number,
): Promise<bigint | undefined> {
  let lastId: bigint | undefined;
  for (const backup of backupNames(path, start)) {
    const exists = await withFileIfExists(fileSystem, backup, async (file) => {
      lastId = await findLastId(readParts(file, 0, Number.POSITIVE_INFINITY), lastId);
      return true;
    });
    if (!exists) break;
  }
  return lastId;
}

/** Returns the largest of `lastId` and the ids of animals in the bytes. */
async function findLastId(
  parts: AsyncIterable<Buffer>,
  lastId: bigint | undefined,
): Promise<bigint | undefined> {
  let largest = lastId;
  let rest = '';
  for await (const part of parts) {
    const text = rest + part.toString('latin1');
    for (const [, digits = ''] of text.matchAll(ID)) {
      const id = BigInt(digits);
      if (id <= INT64_MAX && (largest === undefined || id > largest)) largest = id;
    }
    rest = text.slice(-MAX_ID_BYTES);
  }
  return largest;
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

/** Whether a file consists of these bytes. Undefined if there is no such file. */
const hasBytes = (fileSystem: FileSystem, path: string, parts: AsyncIterable<Buffer>, size: number) =>
  withFileIfExists(fileSystem, path, async (file) => {
    if ((await file.stat()).size !== size) return false;
    let position = 0;
    for await (const part of parts) {
      const bytes = Buffer.alloc(part.length);
      await readFully(file, bytes, position);
      if (!bytes.equals(part)) return false;
      position += part.length;
    }
    return true;
  });
