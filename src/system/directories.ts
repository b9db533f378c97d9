import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { errnoOf, type FileSystem, isMissing } from './file-system.ts';

/**
 * Creates the directory and its missing parents with mode 0700. Does not sync their names: see `fsyncAncestors`.
 *
 * Node's recursive mkdir is not used, because it never returns if the file system reports ENOENT for every mkdir, as
 * /proc does.
 */
export async function makeDirectory(fileSystem: FileSystem, path: string, withParents = true): Promise<void> {
  try {
    await fileSystem.mkdir(path);
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return;
    if (!withParents || !isMissing(error) || dirname(path) === path) throw error;
    await makeDirectory(fileSystem, dirname(path));
    await makeDirectory(fileSystem, path, false);
  }
}

/** Like `makeDirectory`, and sets mode 0700 if the directory existed with another mode. */
export async function makePrivateDirectory(fileSystem: FileSystem, path: string): Promise<void> {
  await makeDirectory(fileSystem, path);
  await fileSystem.chmod(path, 0o700);
}

/** Like `makeDirectory`, but synchronous and always on the real file system. Returns false if the directory existed. */
export function makeDirectorySync(path: string, withParents = true): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    if (!withParents || !isMissing(error) || dirname(path) === path) throw error;
    makeDirectorySync(dirname(path));
    return makeDirectorySync(path, false);
  }
}

/**
 * Syncs the names in a directory, the directory's own name and the names of its ancestors. Do this even if the
 * directory existed: the process that created it may have been killed before syncing.
 */
export async function fsyncAncestors(fileSystem: FileSystem, directory: string): Promise<void> {
  await fileSystem.syncDirectory(directory);
  for (let parent = dirname(directory); ; parent = dirname(parent)) {
    try {
      await fileSystem.syncDirectory(parent);
    } catch (error) {
      // Skip ancestors that this process may not open, or that are read-only: the directory can be used anyway.
      if (!['EACCES', 'EPERM', 'EROFS'].includes(errnoOf(error) ?? '')) throw error;
    }
    if (parent === dirname(parent)) return;
  }
}
