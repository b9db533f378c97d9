import { accessSync, constants, existsSync, lstatSync, mkdirSync } from 'node:fs';
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

/** A directory that all processes of a user share. */
export type StateDirectory = {
  path: string;
  /**
   * Whether the directory is in one for temporary files, where another user may have created it first. It is used only if
   * this user owns it and other users have no access to it.
   */
  isTemporary: boolean;
};

/**
 * Whether the path is a directory of this user whose mode has none of the `forbidden` permissions. On Windows, any
 * directory is accepted, because its parent directories control access.
 */
export function isOwnDirectory(path: string, forbidden: number): boolean {
  try {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (!stats?.isDirectory()) return false;
    return (
      process.geteuid === undefined || (stats.uid === process.geteuid() && (stats.mode & forbidden) === 0)
    );
  } catch {
    return false;
  }
}

/** Whether no other user can have put files into the directory. */
export const isTrusted = ({ path, isTemporary }: StateDirectory): boolean =>
  !isTemporary || isOwnDirectory(path, 0o077);

/** Creates the directory if it is missing. Returns whether it is trusted and this process can create files in it. */
export function prepareStateDirectory(directory: StateDirectory): boolean {
  const { path, isTemporary } = directory;
  try {
    if (!existsSync(path)) makeDirectorySync(path, !isTemporary);
    // The dot makes the check fail if the path is a file.
    accessSync(`${path}/.`, constants.W_OK | constants.X_OK);
    return isTrusted(directory);
  } catch {
    return false;
  }
}
