import { join } from 'node:path';
import { AppendFile } from '../../system/append-file.ts';
import type { FileSystem, OpenFile } from '../../system/file-system.ts';
import { withFile } from '../../system/files.ts';
import { newerVersionError } from '../errors.ts';
import { type Contents, JournalReducer } from './journal-reducer.ts';
import { damagedAt, decodeJournalHeader, type JournalHeader } from './record-format.ts';
import { resyncLast, truncateTornTail } from './repair.ts';
import { findRecord, type Replayed, replayJournal } from './replay-journal.ts';

/** The name of the journal in the store's directory. */
export const JOURNAL = 'journal.ndjson';

/** A journal that was read. `nextId` is the id of the next animal, and `size` the length of the file when it was read. */
export type Journal = {
  header: JournalHeader;
  contents: Contents;
  nextId: bigint;
  replayed: Replayed;
  size: number;
};

/**
 * Reads the journal of a directory, also if another process is appending to it. `now` is in milliseconds since 1970.
 *
 * @throws StoreDamagedError, StoreVersionError
 */
export async function readJournal(fileSystem: FileSystem, directory: string, now: number): Promise<Journal> {
  const path = join(directory, JOURNAL);
  return withFile(await fileSystem.open(path, 'read'), async (opened) => {
    const { size } = await opened.stat();
    const file = limitSize(opened, size);
    const reducer = new JournalReducer(now);
    let header: JournalHeader | undefined;
    const replayed = await replayJournal(file, size, {
      record(bytes, start, end, offset) {
        if (!header) {
          header = decodeJournalHeader(bytes.subarray(start, end), path);
          return;
        }
        const problem = reducer.add(bytes, start, end);
        if (problem?.isNewer) throw newerVersionError(`${path}, byte ${offset}: ${problem.reason}`);
        if (problem) throw damagedAt(path, offset, problem.reason);
      },
      commit: () => reducer.commit(true),
    });
    if (!header) throw damagedAt(path, 0, 'the first line is not a journal header');
    const { end } = replayed;
    const next = end < size ? await findRecord(file, end, size) : undefined;
    if (next !== undefined) throw damagedAt(path, end, `a valid record follows at byte ${next}`);
    const { contents } = reducer;
    const lastId = contents.pets.lastId ?? 0n;
    return { header, contents, nextId: lastId < 0n ? 1n : lastId + 1n, replayed, size };
  });
}

/**
 * Opens a journal that was just read for appending, after removing a torn write at its end. All that was read is on the
 * disk then. Only a process that has locked the directory may call this.
 */
export async function openForAppending(
  fileSystem: FileSystem,
  directory: string,
  { replayed, size }: Journal,
  onWarning: (message: string) => void,
): Promise<AppendFile> {
  const path = join(directory, JOURNAL);
  const file = await fileSystem.open(path, 'readwrite');
  try {
    const warning = await truncateTornTail(fileSystem, path, file, replayed, size);
    const end = await resyncLast(file, replayed);
    if (warning) onWarning(warning);
    return new AppendFile(file, end, { recovers: true });
  } catch (error) {
    await file.close().catch(() => {});
    throw error;
  }
}

/** Hides the bytes after `size`, which another process may be writing. */
function limitSize(file: OpenFile, size: number): OpenFile {
  const read: OpenFile['read'] = async (buffer, offset, length, position) => {
    const allowed = Math.min(length, size - position);
    return allowed > 0 ? file.read(buffer, offset, allowed, position) : 0;
  };
  return { ...file, read };
}
