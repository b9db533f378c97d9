import * as fs from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import { fsyncAncestors, makeDirectory } from '../../system/directories.ts';
import { errnoOf, isMissing, type OpenFile, realFileSystem } from '../../system/file-system.ts';
import { createFile, readBytes, readParts, temporaryName, withFile } from '../../system/files.ts';
import { BANS, loadBans } from '../ban-file.ts';
import { StoreError, toStoreError } from '../errors.ts';
import { keyDirectory, keyNames, keyPath, listKeys } from '../keys/keys.ts';
import type { StoreMaintenance, StoreReport } from '../store.ts';
import { JOURNAL, type Journal, readJournal } from './load-journal.ts';

/** The maximum number of times that the journal is read, if a server may be writing its last line. */
const ATTEMPTS = 3;

/** Checks and copies the store in a directory. Does not lock the directory and changes nothing in it. */
export function journalMaintenance(directory: string, clock: Clock): StoreMaintenance {
  const source = resolve(directory);
  const convertError = (error: unknown, action: string): StoreError =>
    isMissing(error)
      ? new StoreError(
          `there is no store in ${source}`,
          'name the directory of a store (--data of pets serve)',
        )
      : toStoreError(error, action);
  return {
    check: () =>
      checkStore(source, clock).catch((error) => {
        throw convertError(error, `check the store in ${source}`);
      }),
    copyTo: (target) =>
      copyStore(source, resolve(target), clock).catch((error) => {
        throw convertError(error, `copy the store in ${source} to ${resolve(target)}`);
      }),
  };
}

async function checkStore(directory: string, clock: Clock): Promise<StoreReport> {
  const journal = await readSettled(directory, clock);
  const keys = await listKeys(directory);
  await loadBans(directory);
  const { header, contents, replayed, size } = journal;
  return {
    id: header.id,
    animals: contents.pets.size,
    orders: contents.orders.length,
    keys: keys.length,
    lastId: contents.lastId === Number.NEGATIVE_INFINITY ? undefined : BigInt(contents.lastId),
    sequence: contents.seq,
    damagedBytes: size - replayed.end,
  };
}

/** Reads the journal again if its last line is not valid, because a server may just have been writing it. */
async function readSettled(directory: string, clock: Clock): Promise<Journal> {
  let journal = await readJournal({ files: realFileSystem, directory, clock });
  for (let attempt = 1; attempt < ATTEMPTS && journal.replayed.end < journal.size; attempt++) {
    journal = await readJournal({ files: realFileSystem, directory, clock });
  }
  return journal;
}

/** Fills a temporary directory, and renames it to `target` at the end. So `target` is never an incomplete copy. */
async function copyStore(source: string, target: string, clock: Clock): Promise<StoreReport> {
  const { size } = await readSettled(source, clock);
  const temporary = temporaryName(target);
  await removeEmpty(target);
  await makeDirectory(realFileSystem, temporary);
  try {
    await withFile(await realFileSystem.open(join(source, JOURNAL), 'read'), (file) =>
      copyJournal(file, size, join(temporary, JOURNAL)),
    );
    await makeDirectory(realFileSystem, keyDirectory(temporary));
    for (const name of await keyNames(source)) {
      await copyFile(keyPath(source, name), keyPath(temporary, name));
    }
    await realFileSystem.syncDirectory(keyDirectory(temporary));
    await copyFile(join(source, BANS), join(temporary, BANS));
    await realFileSystem.syncDirectory(temporary);
    const report = await checkStore(temporary, clock);
    await fs.rename(temporary, target);
    await fsyncAncestors(realFileSystem, target);
    return report;
  } catch (error) {
    await fs.rm(temporary, { recursive: true, force: true });
    throw error;
  }
}

/** @throws StoreError if the directory is not empty, or is a file */
async function removeEmpty(directory: string): Promise<void> {
  try {
    await fs.rmdir(directory);
  } catch (error) {
    if (isMissing(error)) return;
    if (!['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(errnoOf(error) ?? '')) throw error;
    throw new StoreError(`${directory} is not empty`, 'copy to a directory that does not exist yet');
  }
}

/** Copies the first `size` bytes, which were valid. A server that uses the journal only adds bytes after them. */
async function copyJournal(file: OpenFile, size: number, target: string): Promise<void> {
  await createFile(realFileSystem, target, readParts(file, 0, size));
  // The first `size` bytes can end with a line that the server could not sync and has removed.
  if ((await file.stat()).size < size) throw new StoreError('the journal has become shorter', 'try again');
}

/** Copies a file if it exists. */
async function copyFile(source: string, target: string): Promise<void> {
  const bytes = await readBytes(realFileSystem, source);
  if (bytes !== undefined) await createFile(realFileSystem, target, [bytes]);
}
