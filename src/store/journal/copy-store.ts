import * as fs from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import { fsyncAncestors, makeDirectory } from '../../system/directories.ts';
import { errnoOf, type FileSystem, isMissing, type OpenFile } from '../../system/file-system.ts';
import { createFile, readBytes, readParts, withFile, writeAndSync } from '../../system/files.ts';
import { StoreError } from '../errors.ts';
import type { StoreReport } from '../store.ts';
import { BANS } from './ban-file.ts';
import { KeyFiles } from './key-files.ts';
import { incompleteCopyError, JOURNAL, JOURNAL_OF_COPY } from './load-journal.ts';
import { readStore } from './read-store.ts';

/**
 * Copies a store and verifies the copy. The journal gets its name last, so the target is never an incomplete store.
 * After an error, everything that was written is deleted.
 */
export async function copyStore(
  source: string,
  target: string,
  settings: { clock: Clock; files: FileSystem },
): Promise<StoreReport> {
  const { files } = settings;
  // Errors in the source are reported with the paths of the source.
  const { size } = await readStore(source, settings);
  const missing = await missingDirectories(target);
  if (missing.length === 0) await requireEmpty(target);
  try {
    await makeDirectory(files, target);
    const file = await claim(target, files);
    try {
      await withFile(file, () => copyJournal(join(source, JOURNAL), file, size, files));
      const sourceKeys = new KeyFiles(source, { files });
      const targetKeys = new KeyFiles(target, { files });
      await makeDirectory(files, targetKeys.path);
      for (const name of await sourceKeys.names()) {
        await copyFile(sourceKeys.pathOf(name), targetKeys.pathOf(name), files);
      }
      await files.syncDirectory(targetKeys.path);
      await copyFile(join(source, BANS), join(target, BANS), files);
      await files.syncDirectory(target);
      const { report } = await readStore(target, { ...settings, journal: JOURNAL_OF_COPY });
      await files.rename(join(target, JOURNAL_OF_COPY), join(target, JOURNAL));
      await fsyncAncestors(files, target);
      return report;
    } catch (error) {
      await removeCopy(target).catch(() => {});
      throw error;
    }
  } catch (error) {
    for (const directory of missing) await fs.rmdir(directory).catch(() => {});
    throw error;
  }
}

/** The directory and its ancestors that do not exist, the directory first. */
async function missingDirectories(directory: string): Promise<string[]> {
  try {
    await fs.lstat(directory);
    return [];
  } catch (error) {
    if (!isMissing(error)) throw error;
    return [directory, ...(await missingDirectories(dirname(directory)))];
  }
}

/** @throws StoreError if the directory contains anything but `allowed`, or if there is no directory with this name */
async function requireEmpty(directory: string, allowed?: string): Promise<void> {
  const hint = 'copy to an empty directory, or to one that does not exist yet';
  const names = await fs.readdir(directory).catch((error) => {
    if (isMissing(error)) {
      throw new StoreError(`${directory} is a symbolic link to a path that does not exist`, hint);
    }
    throw errnoOf(error) === 'ENOTDIR' ? new StoreError(`${directory} is not a directory`, hint) : error;
  });
  const others = names.filter((name) => name !== allowed);
  if (others.length === 0) return;
  if (others.includes(JOURNAL_OF_COPY) && !others.includes(JOURNAL)) throw incompleteCopyError(directory);
  throw new StoreError(`${directory} is not empty`, hint);
}

/** Creates the file that will be the journal. Only one process at a time can create it. */
async function claim(target: string, files: FileSystem): Promise<OpenFile> {
  const path = join(target, JOURNAL_OF_COPY);
  const file = await files.open(path, 'create').catch((error) => {
    throw errnoOf(error) === 'EEXIST' ? incompleteCopyError(target) : error;
  });
  try {
    // Another copy may have been completed since the directory was checked.
    await requireEmpty(target, JOURNAL_OF_COPY);
    // The keys must not be on the disk without this file. Otherwise, they would look like the keys of a new store.
    await files.syncDirectory(target);
    return file;
  } catch (error) {
    await file.close();
    await fs.unlink(path);
    throw error;
  }
}

/** Copies the first `size` bytes, which were valid. A server that uses the journal only adds bytes after them. */
async function copyJournal(source: string, target: OpenFile, size: number, files: FileSystem): Promise<void> {
  await withFile(await files.open(source, 'read'), async (file) => {
    await writeAndSync(target, readParts(file, 0, size));
    // The first `size` bytes can end with a line that the server could not sync and has removed.
    if ((await file.stat()).size < size) throw new StoreError('the journal has become shorter', 'try again');
  });
}

/** Copies a file if it exists. */
async function copyFile(source: string, target: string, files: FileSystem): Promise<void> {
  const bytes = await readBytes(files, source);
  if (bytes !== undefined) await createFile(files, target, [bytes]);
}

/** Deletes the copy. First takes the name of the journal away, and deletes that file last, as a copy is created. */
async function removeCopy(target: string): Promise<void> {
  const journal = join(target, JOURNAL_OF_COPY);
  await fs.rename(join(target, JOURNAL), journal).catch(() => {});
  await fs.rm(new KeyFiles(target).path, { recursive: true, force: true });
  await fs.rm(join(target, BANS), { force: true });
  await fs.rm(journal, { force: true });
}
