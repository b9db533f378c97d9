import { join } from 'node:path';
import { StoreDamagedError } from './errors.ts';
import { type Files, type OpenFile, readAll } from './files.ts';
import { cutTornTail, damagedAt, JOURNAL, rewriteLast } from './journal-file.ts';
import { type Contents, JournalFold } from './journal-fold.ts';
import { decodeHeader, type Header } from './journal-format.ts';
import { replay } from './journal-replay.ts';

/** A journal that is open for appending at `end`, a byte offset. */
export type Journal = { file: OpenFile; header: Header; contents: Contents; end: number };

/**
 * Opens the journal and reads all of it; what this returns is on the disk. `now` is in milliseconds since 1970.
 *
 * @throws StoreDamagedError, and then the file is as it was
 */
export async function loadJournal(
  files: Files,
  directory: string,
  now: number,
  onWarning: (message: string) => void,
): Promise<Journal> {
  const path = join(directory, JOURNAL);
  const file = await files.open(path, 'change');
  try {
    const { size } = await file.status();
    const fold = new JournalFold(now);
    let header: Header | undefined;
    const replayed = await replay(file, size, {
      record(bytes, start, end, offset) {
        if (!header) header = decodeHeader(bytes.subarray(start, end), path);
        else {
          const why = fold.add(bytes, start, end);
          if (why) throw damagedAt(directory, offset, why);
        }
      },
      settle: () => fold.settle(),
    });
    if (!header) throw await noHeader(file, path);
    const torn = await cutTornTail(files, directory, file, replayed, size);
    const end = await rewriteLast(file, replayed);
    await file.datasync();
    if (torn) {
      onWarning(
        `${path}: its last ${torn.length} bytes, from byte ${torn.offset} on, were not completely written before the ` +
          `server or the machine stopped; they were cut off, and are kept in ${join(directory, torn.saved)}`,
      );
    }
    return { file, header, contents: fold.contents, end };
  } catch (error) {
    await file.close().catch(() => {});
    throw error;
  }
}

/** The first line is not valid: say why as well as can be. */
async function noHeader(file: OpenFile, path: string): Promise<Error> {
  const start = Buffer.alloc(1024);
  const read = await readAll(file, start, 0);
  const line = start.subarray(0, read).toString('latin1').split('\n', 1)[0] ?? '';
  try {
    decodeHeader(Buffer.from(line, 'latin1'), path);
  } catch (error) {
    if (error instanceof Error) return error;
  }
  return new StoreDamagedError(`${path} is damaged at byte 0`, 'restore the file from a backup');
}
