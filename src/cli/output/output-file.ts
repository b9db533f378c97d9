import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import { errnoOf, isMissing, realFileSystem, temporaryName } from '../../system/file-system.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import type { Context, OutputStream } from '../core/context.ts';
import { CliError, fileError } from '../core/errors.ts';

/** The file of `--output`, whose stream replaces stdout. It keeps its old contents until `commit`. */
export type OutputFile = {
  name: string;
  stream: OutputStream;
  /** Replaces or creates the file with all the data. */
  commit(): Promise<void>;
  /** Deletes the data that was written. Does nothing after `commit`. */
  discard(): void;
};

/**
 * Opens the file of `--output`. A symbolic link to the file is kept. An existing file keeps its mode. A new file gets
 * `mode` minus the umask.
 *
 * @throws CliError if the file cannot be written, or is not a regular file
 */
export function openOutput(name: string, context: Context, mode = 0o666): OutputFile {
  const { path, existing } = findTarget(name);
  const directory = dirname(path);
  // Names may have 255 bytes, and a character has at most 4.
  const temporary = join(directory, temporaryName(Array.from(basename(path)).slice(0, 50).join('')));
  let descriptor: number | undefined;
  let unsubscribe: (() => void) | undefined;
  let isInterrupted = false;
  /**
   * The temporary file is created by the first write, so that a command that is killed rarely leaves one. From then on,
   * signals end the output, so that an interrupted command removes the file.
   */
  const open = () => {
    unsubscribe ??= context.onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], () => (isInterrupted = true));
    // Other users may not be allowed to read the existing file, so they cannot read the temporary file either.
    descriptor ??= fs.openSync(temporary, 'wx', existing ? 0o600 : mode);
    if (isInterrupted) throw new InterruptedError();
    return descriptor;
  };
  const close = () => {
    if (descriptor !== undefined) fs.closeSync(descriptor);
    descriptor = undefined;
    unsubscribe?.();
  };
  const write = (bytes: Buffer, done: (error?: Error) => void) => {
    try {
      for (let left = bytes; left.length > 0; ) left = left.subarray(fs.writeSync(open(), left));
      // Signals are handled only between turns of the event loop.
      setImmediate(done);
    } catch (error) {
      done(error as Error);
    }
  };
  return {
    name,
    // Every write has a callback that gets its error, so `error` events are ignored.
    stream: new Writable({ write: (bytes, _, done) => write(bytes, done) }).on('error', () => {}),
    async commit() {
      const file = open();
      if (existing) copyOwnerAndMode(file, existing);
      fs.fsyncSync(file);
      close();
      fs.renameSync(temporary, path);
      // If this fails, a power loss can bring back the old file, which is complete too.
      await realFileSystem.syncDirectory(directory).catch(() => {});
    },
    discard() {
      close();
      // After `commit`, there is no such file.
      fs.rmSync(temporary, { force: true });
    },
  };
}

const REPLACED =
  'pets replaces the whole file: make the file and its directory writable, or choose another file';

/** Paths of devices and of open files of processes, which are never replaced. */
const SYSTEM = /^\/(?:dev(?!\/shm\/)|proc)\//;

/** The path that the name means, and the file that exists there. @throws CliError */
function findTarget(name: string): { path: string; existing: fs.Stats | undefined } {
  try {
    const existing = fs.statSync(name, { throwIfNoEntry: false });
    // A link to a missing file is not new: `rename` would replace the link itself.
    const isNew = !/[/\\]$/.test(name) && fs.lstatSync(name, { throwIfNoEntry: false }) === undefined;
    const isReplaceable = existing?.isFile() ?? isNew;
    const own = join(fs.realpathSync.native(dirname(name)), basename(name));
    const path = existing?.isFile() ? fs.realpathSync.native(name) : own;
    if (!isReplaceable || name === '-' || SYSTEM.test(own) || SYSTEM.test(path))
      throw new CliError(
        `cannot write ${name}: it is ${(existing?.isDirectory() ?? /[/\\]$/.test(name)) ? 'a directory' : 'not a regular file'}`,
        {
          code: 'file_error',
          hint: 'choose another file; for stdout, leave out --output; for a pipe or a device, use > instead',
        },
      );
    // `rename` would also replace a file that is protected against writing.
    if (existing) fs.accessSync(path, fs.constants.W_OK);
    fs.accessSync(dirname(path), fs.constants.W_OK | fs.constants.X_OK);
    return { path, existing };
  } catch (error) {
    if (error instanceof CliError) throw error;
    const { path = dirname(name) } = error as NodeJS.ErrnoException;
    if (isMissing(error))
      throw new CliError(
        `cannot write ${name}: ${path === '.' ? 'the current directory was deleted' : `the directory ${path} does not exist`}`,
        { code: 'file_error', cause: error },
      );
    const isRefused = ['EACCES', 'EPERM', 'EROFS'].includes(errnoOf(error) ?? '');
    throw fileError('write', name, error, isRefused ? REPLACED : undefined);
  }
}

/** Copies the owner and the mode as far as this is allowed. Only root may set another owner. */
function copyOwnerAndMode(descriptor: number, { uid, gid, mode }: fs.Stats): void {
  try {
    fs.fchownSync(descriptor, uid, gid);
  } catch {}
  try {
    fs.fchmodSync(descriptor, mode & 0o7777);
  } catch {}
}
