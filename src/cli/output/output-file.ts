import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isMissing, realFileSystem, temporaryName } from '../../system/file-system.ts';
import { CliError, fileError } from '../core/errors.ts';

/** The file of `--output`, which gets the data instead of stdout. */
export type OutputFile = {
  name: string;
  /** Keeps data for `commit`. */
  write(text: string): void;
  /** Replaces or creates the file with all the data, unless this was done before. */
  commit(): Promise<void>;
};

/**
 * Checks that the file of `--output` can be written, before a command does anything. A symbolic link to the file is kept. An
 * existing file keeps its mode. A new file gets `mode` minus the umask. Until `commit`, nothing is written, so a command that
 * fails or is interrupted before it leaves everything as it was.
 *
 * @throws CliError if the file cannot be written, or is not a regular file
 */
export function openOutput(name: string, mode: number): OutputFile {
  const { path, existing } = findTarget(name);
  const parts: Buffer[] = [];
  let isDone = false;
  return {
    name,
    write: (text) => parts.push(Buffer.from(text)),
    async commit() {
      if (isDone) return;
      const temporary = temporaryName(join(dirname(path), 'pets-output'));
      try {
        // Other users may not be allowed to read the existing file, so at first they cannot read the temporary file.
        const file = fs.openSync(temporary, 'wx', existing ? 0o600 : mode);
        try {
          for (const part of parts) fs.writeFileSync(file, part);
          if (existing) copyOwnerAndMode(file, existing);
          fs.fsyncSync(file);
        } finally {
          fs.closeSync(file);
        }
        fs.renameSync(temporary, path);
      } catch (error) {
        fs.rmSync(temporary, { force: true });
        throw error;
      }
      isDone = true;
      // If this fails, a power loss can bring back the old file, which is complete too.
      await realFileSystem.syncDirectory(dirname(path)).catch(() => {});
    },
  };
}

/** Matches paths in /proc, and in /dev except shared memory. Devices and open files of processes are never replaced. */
const SYSTEM_PATH = /^\/(?:dev(?!\/shm\/)|proc)\//;

/** Resolves a name to the path to write, with the file that exists there. @throws CliError if it cannot be written */
function findTarget(name: string): { path: string; existing: fs.Stats | undefined } {
  const writeError = (cause: unknown, hint?: string) => fileError('write', name, cause, hint);
  try {
    const existing = fs.statSync(name, { throwIfNoEntry: false });
    const own = join(fs.realpathSync.native(dirname(name)), basename(name));
    const path = existing?.isFile() ? fs.realpathSync.native(name) : own;
    // A link to a missing file is not new: `rename` would replace the link itself.
    const isFile = existing?.isFile() ?? fs.lstatSync(own, { throwIfNoEntry: false }) === undefined;
    if (!isFile || /^-$|[/\\]$/.test(name) || [own, path].some((file) => SYSTEM_PATH.test(file)))
      throw writeError(
        new Error('it must be a regular file, not a directory, a device or a broken link'),
        'choose another file; for stdout, leave out --output; for a pipe or a device, use > instead',
      );
    // `rename` would also replace a file that is protected against writing.
    if (existing) fs.accessSync(path, fs.constants.W_OK);
    fs.accessSync(dirname(path), fs.constants.W_OK | fs.constants.X_OK);
    return { path, existing };
  } catch (error) {
    if (error instanceof CliError) throw error;
    if (isMissing(error))
      throw writeError(new Error('its directory does not exist'), 'create it, or choose another one');
    throw writeError(
      error,
      'choose a file that you may change, in a directory that you may change, such as --output ~/animals.csv',
    );
  }
}

/** Copies the owner and the mode as far as this is allowed. Only root may set another owner. */
function copyOwnerAndMode(descriptor: number, { uid, gid, mode }: fs.Stats): void {
  for (const copy of [
    () => fs.fchownSync(descriptor, uid, gid),
    () => fs.fchmodSync(descriptor, mode & 0o7777),
  ]) {
    try {
      copy();
    } catch {}
  }
}
