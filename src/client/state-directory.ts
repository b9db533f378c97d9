import { accessSync, constants, lstatSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';

/** A directory that all processes of a user share. */
export type StateDirectory = {
  path: string;
  /**
   * Whether the path is in the directory for temporary files, where another user may have created it first. Such a
   * directory is used only if this user owns it and other users have no access to it.
   */
  isTemporary: boolean;
};

/**
 * Whether the path is a directory of this user whose mode has none of the `forbidden` permissions. On Windows, any
 * directory is accepted, because its parent directories control access.
 */
export function isOwnDirectory(path: string, forbidden: number): boolean {
  try {
    const stats = lstatSync(path);
    const isPrivate = stats.uid === process.geteuid?.() && (stats.mode & forbidden) === 0;
    return stats.isDirectory() && (isPrivate || process.geteuid === undefined);
  } catch {
    return false;
  }
}

/** Whether no other user can have put files into the directory. Only a temporary directory is checked. */
export const isTrusted = ({ path, isTemporary }: StateDirectory): boolean =>
  !isTemporary || isOwnDirectory(path, 0o077);

/** Creates the directory if it is missing. Returns whether it is trusted and this process can create files in it. */
export function prepareStateDirectory(directory: StateDirectory): boolean {
  const { path, isTemporary } = directory;
  try {
    makeDirectorySync(path, !isTemporary);
    // The dot makes the check fail if the path is a file.
    accessSync(`${path}/.`, constants.W_OK | constants.X_OK);
    return isTrusted(directory);
  } catch {
    return false;
  }
}

/** Like `makeDirectory` in src/system, but synchronous. Returns false if the directory existed. */
export function makeDirectorySync(path: string, withParents = true): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    if (!withParents || code !== 'ENOENT' || dirname(path) === path) throw error;
    makeDirectorySync(dirname(path));
    return makeDirectorySync(path, false);
  }
}
