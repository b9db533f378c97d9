import { join } from 'node:path';
import { StoreDamagedError } from './errors.ts';
import { errnoOf, type Files, type OpenFile, readAll, replaceFile, withFile, writeAll } from './files.ts';
import { type Header, NEWLINE } from './journal-format.ts';
import { findRecord, type Replayed } from './journal-replay.ts';

export const JOURNAL = 'journal.ndjson';
const TEMPORARY = /^(?:journal|bans)\.new-[0-9a-f]+$/;

/** Makes up a new store. `now` is in milliseconds since 1970. */
export function newHeader(random: (bytes: number) => Uint8Array, now: number): Header {
  const bytes = Uint8Array.from(random(16));
  // Version 4, variant 1: the bits that say "random" (RFC 9562).
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const id = hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  return { id, secret: hex(random(32)), created: new Date(now).toISOString() };
}

export const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

/** Writes a complete journal in one step. `unique` is hexadecimal. */
export const writeJournal = (
  files: Files,
  directory: string,
  unique: string,
  lines: Iterable<Uint8Array>,
): Promise<void> => replaceFile(files, join(directory, JOURNAL), `journal.new-${unique}`, lines);

/** Removes what writers that were killed have left. Only the holder of the directory may. */
export async function removeLeftovers(files: Files, directory: string, names: string[]): Promise<void> {
  for (const name of names) if (TEMPORARY.test(name)) await files.unlink(join(directory, name));
}

/**
 * Cuts off what is behind the last record and keeps it in a file beside; undefined where there is nothing. The caller
 * syncs the cut.
 *
 * @throws StoreDamagedError where a record stands behind: then nothing is changed
 */
export async function cutTornTail(
  files: Files,
  directory: string,
  file: OpenFile,
  replayed: Replayed,
  size: number,
): Promise<{ offset: number; length: number; saved: string } | undefined> {
  const offset = replayed.end;
  if (offset === size) return undefined;
  const next = await findRecord(file, offset, size);
  if (next !== undefined) throw damagedAt(directory, offset, `a valid record follows at byte ${next}`);
  const saved = await saveTail(files, directory, file, offset, size);
  await file.truncate(offset);
  return { offset, length: size - offset, saved };
}

/**
 * Writes the last record once more, with its newline. Only that one may be unsynced, and after a sync that failed a
 * system may hold its pages to be clean: they would be read, but never reach the disk.
 *
 * @returns the length of the file
 */
export async function rewriteLast(file: OpenFile, replayed: Replayed): Promise<number> {
  const length = replayed.end - replayed.last;
  const line = Buffer.alloc(length + (replayed.bare ? 1 : 0), NEWLINE);
  await readAll(file, line.subarray(0, length), replayed.last);
  await writeAll(file, line, replayed.last);
  return replayed.last + line.length;
}

export function damagedAt(directory: string, offset: number, why: string): StoreDamagedError {
  return new StoreDamagedError(
    `${join(directory, JOURNAL)} is damaged at byte ${offset}: ${why}`,
    'restore the file from a backup, or move it away to begin an empty store; it was not changed',
  );
}

async function saveTail(files: Files, directory: string, file: OpenFile, offset: number, size: number) {
  const { name, copy } = await createBeside(files, directory, `journal.torn-${offset}`);
  await withFile(copy, async () => {
    const buffer = Buffer.allocUnsafeSlow(2 ** 16);
    for (let position = offset; position < size; ) {
      const read = await readAll(file, buffer, position);
      if (read === 0) break;
      await writeAll(copy, buffer.subarray(0, read), position - offset);
      position += read;
    }
    await copy.datasync();
  });
  await files.syncDirectory(directory);
  return name;
}

async function createBeside(files: Files, directory: string, wanted: string) {
  for (let count = 1; ; count++) {
    const name = count === 1 ? wanted : `${wanted}-${count}`;
    try {
      return { name, copy: await files.open(join(directory, name), 'create') };
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
  }
}
