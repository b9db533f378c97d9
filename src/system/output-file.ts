import type { Stats } from 'node:fs';
import * as fs from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { errnoOf, realFileSystem } from './file-system.ts';
import { temporaryName } from './files.ts';

/** A place to which a program writes its output. After an error, only `discard` may be called. */
export interface OutputFile {
  /** Whether `commit` replaces or creates a regular file. */
  isReplaced: boolean;
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the output. A regular file then has all the data. */
  commit(): Promise<void>;
  /** Gives up. A regular file keeps its old contents. Does nothing after `commit`. */
  discard(): void;
}

/**
 * Called between attempts if a named pipe has no reader yet, or if a pipe or device takes no more data for now. Rejects to
 * give up.
 */
export type Wait = () => Promise<void>;

/** The maximum number of symbolic links in a path, as on Linux. */
const MAX_LINKS = 40;

/**
 * Opens a file for output. A regular file, or one that does not exist, is replaced as a whole by `commit`, and keeps its
 * mode. Symbolic links are followed, also to a file that does not exist. Devices and named pipes are written directly.
 *
 * @param mode the mode of a new file, from which the system subtracts the umask
 * @returns the number of the stream instead if the path names stdout (1) or stderr (2) of this process
 * @throws the error of the system if the file cannot be written, or is a directory
 */
export async function openOutputFile(path: string, wait: Wait, mode: number): Promise<OutputFile | 1 | 2> {
  const target = followLinks(path);
  const descriptor = descriptorOf(target);
  if (descriptor === 1 || descriptor === 2) return descriptor;
  const existing = fs.statSync(target, { throwIfNoEntry: false });
  // An inherited file has a position, which a shell may have set with >>.
  if (descriptor !== undefined && existing?.isFile()) return directOutput(descriptor, wait);
  if (existing === undefined || existing.isFile()) return replacingOutput(target, { existing, mode }, wait);
  if (existing.isDirectory()) throw Object.assign(new Error('it is a directory'), { code: 'EISDIR' });
  return openDirectly(target, existing, wait);
}

/** The path without symbolic links, except those of the system that stand for an open file, such as /proc/1/fd/2. */
function followLinks(path: string): string {
  let target = path;
  for (let links = 0; links <= MAX_LINKS; links++) {
    // The version without `native` resolves `..` after a link to a directory as text.
    const directory = fs.realpathSync.native(dirname(target));
    const name = /[/\\]$/.test(target) ? '.' : basename(target);
    target = join(directory, name);
    const isLink = fs.lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink();
    if (!isLink || descriptorOf(target) !== undefined) return target;
    const link = fs.readlinkSync(target);
    // `join` would resolve `..` as text too.
    target = isAbsolute(link) ? link : `${directory}/${link}`;
  }
  throw Object.assign(new Error('too many symbolic links'), { code: 'ELOOP' });
}

/** The open file of this process that a path stands for, such as 1 for what /dev/stdout links to; undefined if none. */
function descriptorOf(path: string): number | undefined {
  const [, pid = process.pid, descriptor] =
    /^(?:\/proc\/(\d+)(?:\/task\/\d+)?|\/dev)\/fd\/(\d+)$/.exec(path) ?? [];
  return descriptor === undefined || Number(pid) !== process.pid ? undefined : Number(descriptor);
}

/**
 * Opens a device, or a named pipe as soon as it has a reader. After Ctrl-C, a process does not exit while a system call
 * waits, so no call may wait.
 */
async function openDirectly(path: string, stats: Stats, wait: Wait): Promise<OutputFile> {
  const { O_WRONLY, O_NONBLOCK = 0, O_NOCTTY = 0 } = fs.constants;
  for (;;) {
    try {
      return directOutput(fs.openSync(path, O_WRONLY | O_NONBLOCK | O_NOCTTY), wait);
    } catch (error) {
      if (!stats.isFIFO() || errnoOf(error) !== 'ENXIO') throw error;
      await wait();
    }
  }
}

/** The file is closed at the end of the process. */
const directOutput = (descriptor: number, wait: Wait): OutputFile => ({
  isReplaced: false,
  write: (bytes) => writeAll(descriptor, bytes, wait),
  commit: async () => {},
  discard() {},
});

/** Writes all of the bytes, repeating short writes. */
async function writeAll(descriptor: number, bytes: Uint8Array, wait: Wait): Promise<void> {
  for (let left = bytes; left.length > 0; ) {
    try {
      left = left.subarray(fs.writeSync(descriptor, left));
    } catch (error) {
      if (errnoOf(error) !== 'EAGAIN') throw error;
      await wait();
    }
  }
}

/**
 * The temporary file is created by the first write and not now, so that a command that is killed rarely leaves one.
 */
function replacingOutput(
  path: string,
  { existing, mode }: { existing: Stats | undefined; mode: number },
  wait: Wait,
): OutputFile {
  const directory = dirname(path);
  // `rename` would also replace a file that is protected against writing.
  if (existing) fs.accessSync(path, fs.constants.W_OK);
  fs.accessSync(directory, fs.constants.W_OK | fs.constants.X_OK);
  const temporary = join(directory, temporaryName(shorten(basename(path))));
  let descriptor: number | undefined;
  // While it is written, data that others must not read is protected too.
  const open = () => (descriptor ??= fs.openSync(temporary, 'wx', existing ? 0o600 : mode));
  const close = () => {
    if (descriptor !== undefined) fs.closeSync(descriptor);
    descriptor = undefined;
  };
  return {
    isReplaced: true,
    write: async (bytes) => writeAll(open(), bytes, wait),
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

/** Only root may set another owner. */
function copyOwnerAndMode(descriptor: number, { uid, gid, mode }: Stats): void {
  try {
    fs.fchownSync(descriptor, uid, gid);
  } catch {}
  fs.fchmodSync(descriptor, mode & 0o7777);
}

/** Shortens a name, so that it can get a suffix. Names may have 255 bytes, and a character has at most 4. */
const shorten = (name: string): string => Array.from(name).slice(0, 50).join('');
