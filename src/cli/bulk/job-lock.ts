import { access, chmod } from 'node:fs/promises';
import { StoreInUseError } from '../../store/errors.ts';
import { ensureDirectory, type Files, isMissing } from '../../store/files.ts';
import { acquireLock, type Lock } from '../../store/lock.ts';
import { alreadyRunningError } from './job-errors.ts';

const ATTEMPTS = 5;

/**
 * Takes the directory of a job for this process, and makes it where it is missing.
 *
 * Making it decides nothing: any number of processes may. Who has the lock in it is the only one that looks for a
 * progress file, moves rows in and makes one, so that of two that begin a job at once the other is refused, or comes
 * later and finds what the first has done. Only an empty directory is ever removed (rmdir), and one in which somebody
 * holds or claims the lock has a socket in it; who was about to claim it finds it gone, and makes it again.
 *
 * @throws CliError where another process has it; `name` is what that one adds
 */
export async function lockJob(files: Files, directory: string, name: string): Promise<Lock> {
  for (let attempt = 1; ; attempt++) {
    try {
      await ensureDirectory(files, directory);
      await chmod(directory, 0o700);
      return await acquireLock(directory);
    } catch (error) {
      if (error instanceof StoreInUseError) throw alreadyRunningError(name, error.pid);
      if (attempt === ATTEMPTS || (await isThere(directory))) throw error;
    }
  }
}

/** The same for a job that may be gone: then it is not made, and undefined. */
export async function lockExistingJob(directory: string, name: string): Promise<Lock | undefined> {
  if (!(await isThere(directory))) return undefined;
  try {
    return await acquireLock(directory);
  } catch (error) {
    if (error instanceof StoreInUseError) throw alreadyRunningError(name, error.pid);
    if (await isThere(directory)) throw error;
    return undefined;
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}
