import { join } from 'node:path';
import { AppendFile } from '../../system/append-file.ts';
import type { FileSystem, OpenFile } from '../../system/file-system.ts';
import { withFile } from '../../system/files.ts';
import { newerVersionError } from '../errors.ts';
import { type Contents, JournalReducer } from './journal-reducer.ts';
import { damagedAt, decodeJournalHeader, encodeLastId, type JournalHeader } from './record-format.ts';
import { lastSavedId, resyncLast, saveTail } from './repair.ts';
import { findRecord, type Replayed, replayJournal } from './replay-journal.ts';

/** The name of the journal in the store's directory. */
export const JOURNAL = 'journal.ndjson';

/** A journal that was read. */
export type Journal = {
  header: JournalHeader;
  contents: Contents;
  /** The id of the next animal. */
  nextId: bigint;
  replayed: Replayed;
  /** The length of the file when it was read. */
  size: number;
  /** Set when a repair of the file begins. If the repair fails, the journal must be read again. */
  isStale?: boolean;
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
    return { header, contents, nextId: idAfter(contents.lastId), replayed, size };
  });
}

/** Ids start at 1. */
const idAfter = (lastId: number | bigint): bigint => (lastId < 0 ? 1n : BigInt(lastId) + 1n);

/**
 * Opens a journal that was just read for appending. Bytes after its last valid record are saved in another file and
 * removed, with a warning. All that was read is on the disk then. Only a process that has locked the directory may call
 * this. `now` is in milliseconds since 1970.
 */
export async function openForAppending(
  fileSystem: FileSystem,
  directory: string,
  journal: Journal,
  now: number,
  onWarning: (message: string) => void,
): Promise<AppendFile> {
  const { contents, replayed, size } = journal;
  const { end } = replayed;
  const path = join(directory, JOURNAL);
  const file = await fileSystem.open(path, 'readwrite');
  try {
    const backup = end < size ? await saveTail(fileSystem, path, file, end, size) : undefined;
    journal.isStale = true;
    if (backup) await file.truncate(end);
    const opened = new AppendFile(file, await resyncLast(file, replayed), { recovers: true });
    const savedId = await lastSavedId(fileSystem, path, end);
    const isNew = savedId !== undefined && savedId > contents.lastId;
    if (isNew) {
      await opened.append(encodeLastId(++contents.seq, Math.trunc(now), savedId));
      contents.lastId = savedId;
      journal.nextId = idAfter(savedId);
    }
    journal.isStale = false;
    if (backup) {
      onWarning(
        `the last line of ${path} (from byte ${end}) is not valid because of a torn write or a later change: ` +
          `${size - end} bytes saved in ${backup}` +
          (isNew ? `; ids up to ${savedId}, which they contain, are not issued again` : ''),
      );
    }
    return opened;
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
