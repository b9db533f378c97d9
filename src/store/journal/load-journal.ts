import { join } from 'node:path';
import { AppendFile } from '../../system/append-file.ts';
import type { FileSystem } from '../../system/file-system.ts';
import { newerVersionError } from '../errors.ts';
import { type Contents, JournalReducer } from './journal-reducer.ts';
import { damagedAt, decodeJournalHeader, type JournalHeader } from './record-format.ts';
import { resyncLast, truncateTornTail } from './repair.ts';
import { replayJournal } from './replay-journal.ts';

/** The name of the journal in the store's directory. */
export const JOURNAL = 'journal.ndjson';

/** A journal that is open for appending. `nextId` is the id of the next animal. */
export type Journal = { file: AppendFile; header: JournalHeader; contents: Contents; nextId: bigint };

/**
 * Opens the journal and replays its records. All returned data is on the disk. `now` is in milliseconds since 1970.
 *
 * @throws StoreDamagedError, StoreVersionError; the file is then unchanged
 */
export async function loadJournal(
  fileSystem: FileSystem,
  directory: string,
  now: number,
  onWarning: (message: string) => void,
): Promise<Journal> {
  const path = join(directory, JOURNAL);
  const file = await fileSystem.open(path, 'readwrite');
  try {
    const { size } = await file.stat();
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
    const warning = await truncateTornTail(fileSystem, path, file, replayed, size);
    const end = await resyncLast(file, replayed);
    if (warning) onWarning(warning);
    const { contents } = reducer;
    const lastId = contents.pets.lastId ?? 0n;
    return { file: new AppendFile(file, end), header, contents, nextId: lastId < 0n ? 1n : lastId + 1n };
  } catch (error) {
    await file.close().catch(() => {});
    throw error;
  }
}
