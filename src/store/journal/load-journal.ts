import { join } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import { AppendFile } from '../../system/append-file.ts';
import { fsyncAncestors } from '../../system/directories.ts';
import type { FileSystem, OpenFile } from '../../system/file-system.ts';
import { isTemporaryName, replaceFile, withFile } from '../../system/files.ts';
import type { DirectoryLock } from '../../system/lock/directory-lock.ts';
import { newerVersionError, StoreError, type StoreFailedError } from '../errors.ts';
import { type Contents, JournalReducer } from './journal-reducer.ts';
import {
  damagedAt,
  decodeJournalHeader,
  encodeJournalHeader,
  encodeLastId,
  type JournalHeader,
  newHeader,
} from './record-format.ts';
import { lastSavedId, resyncLast, saveTail } from './repair.ts';
import { findRecord, type Replayed, replayJournal } from './replay-journal.ts';

/** The name of the journal in the store's directory. */
export const JOURNAL = 'journal.ndjson';

/** The name of the journal in a copy of a store until the copy is complete. */
export const JOURNAL_OF_COPY = 'journal.ndjson.incomplete';

export const incompleteCopyError = (directory: string): StoreError =>
  new StoreError(
    `${directory} contains an incomplete copy of a store: another command is copying, or was stopped`,
    'if no other command is copying, delete everything in that directory, then copy again',
  );

export type JournalSettings = {
  /** Created if it does not exist. */
  directory: string;
  clock: Clock;
  files: FileSystem;
  lock: (directory: string) => Promise<DirectoryLock>;
  /** Receives messages for the user about problems that the store has handled itself. */
  onWarning: (message: string) => void;
  /** Called once, if the journal was deleted or changed, or seeding failed. Reading and writing then fail. */
  onFailure: (error: StoreFailedError) => void;
};

export type ReadSettings = Pick<JournalSettings, 'files' | 'directory' | 'clock'> & {
  /** The name of the journal's file, by default `JOURNAL`. */
  journal?: string;
};

/** A journal that was read. */
export type Journal = {
  header: JournalHeader;
  contents: Contents;
  /** The id of the next animal. */
  nextId: bigint;
  replayed: Replayed;
  /** The length of the file when it was read. */
  size: number;
  /** True from the start of a repair until it succeeds. If the repair failed, the journal must be read again. */
  isStale?: boolean;
};

/** Locks the directory, creates a journal if there is none, and reads it. After an error, nothing stays locked. */
export async function lockAndRead(
  settings: JournalSettings,
): Promise<{ lock: DirectoryLock; journal: Journal }> {
  const { directory, files, clock } = settings;
  const lock = await settings.lock(directory);
  try {
    const names = await files.readdir(directory);
    for (const name of names) {
      // A process that was killed can leave temporary files.
      if (/^(journal|bans)[.]/.test(name) && isTemporaryName(name)) await files.unlink(join(directory, name));
    }
    if (!names.includes(JOURNAL)) {
      if (names.includes(JOURNAL_OF_COPY)) throw incompleteCopyError(directory);
      const header = encodeJournalHeader(newHeader(clock.now()));
      await replaceFile(files, join(directory, JOURNAL), [header]);
    }
    await fsyncAncestors(files, directory);
    return { lock, journal: await readJournal(settings) };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/**
 * Reads the journal of a directory, also if another process is appending to it.
 *
 * @throws StoreDamagedError, StoreVersionError
 */
export async function readJournal({
  files,
  directory,
  clock,
  journal = JOURNAL,
}: ReadSettings): Promise<Journal> {
  const path = join(directory, journal);
  return withFile(await files.open(path, 'read'), async (opened) => {
    const { size } = await opened.stat();
    const file = limitSize(opened, size);
    const reducer = new JournalReducer(clock.now());
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
 * Opens a journal for appending after it was read. Saves the bytes after its last valid record in another file, removes
 * them and warns. Afterwards, everything that was read is on the disk. Only a process that has locked the directory may
 * call this.
 */
export async function openForAppending(
  { files, directory, clock, onWarning }: Omit<JournalSettings, 'lock' | 'onFailure'>,
  journal: Journal,
): Promise<AppendFile> {
  const { contents, replayed, size } = journal;
  const { end } = replayed;
  const path = join(directory, JOURNAL);
  const file = await files.open(path, 'readwrite');
  try {
    const backup = end < size ? await saveTail(files, path, file, end, size) : undefined;
    journal.isStale = true;
    if (backup) await file.truncate(end);
    const opened = new AppendFile(file, await resyncLast(file, replayed), { recovers: true });
    const savedId = await lastSavedId(files, path, end);
    const isNew = savedId !== undefined && savedId > contents.lastId;
    if (isNew) {
      await opened.append(encodeLastId(++contents.seq, Math.trunc(clock.now()), savedId));
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
