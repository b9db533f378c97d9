import { randomBytes } from 'node:crypto';
import { constants, fdatasync, fstatSync, fsync, type Stats, statSync, writeSync } from 'node:fs';
import * as fs from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { getSystemErrorMap, promisify } from 'node:util';

/** Which file it is (device and inode), and its size in bytes. */
export type FileStatus = Pick<Stats, 'dev' | 'ino' | 'size'>;

/** An open file. Offsets and lengths are in bytes; `read` and `write` may process fewer bytes than requested. */
export interface OpenFile {
  read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<number>;
  write(buffer: Uint8Array, offset: number, length: number, position: number): Promise<number>;
  /** Waits until the data and the file size are on the disk (fdatasync). */
  datasync(): Promise<void>;
  truncate(length: number): Promise<void>;
  stat(): Promise<FileStatus>;
  close(): Promise<void>;
}

/** The file system calls that durable files need. Tests pass implementations that fail or lose unsynced data. */
export interface FileSystem {
  /** `create` makes a new file with mode 0600 and fails with EEXIST if the name is taken. */
  open(path: string, mode: 'read' | 'readwrite' | 'create'): Promise<OpenFile>;
  rename(from: string, to: string): Promise<void>;
  /** Adds a second name to a file. Unlike `rename`, fails with EEXIST if the name is taken. */
  link(path: string, name: string): Promise<void>;
  unlink(path: string): Promise<void>;
  /** Creates one directory with mode 0700. */
  mkdir(path: string): Promise<void>;
  chmod(path: string, mode: number): Promise<void>;
  readdir(path: string): Promise<string[]>;
  /** The status of the file that has this path now. */
  stat(path: string): Promise<FileStatus>;
  /** A string that changes when the file is modified or replaced, as far as its inode, size and times show that. */
  version(path: string): Promise<string>;
  /** Waits until created, renamed and deleted names in the directory are on the disk. */
  syncDirectory(path: string): Promise<void>;
}

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL } = constants;
// With O_NONBLOCK, opening a named pipe does not wait for a writer. Windows has no such flag.
const O_NONBLOCK = constants.O_NONBLOCK ?? 0;
const FLAGS = { read: O_RDONLY | O_NONBLOCK, readwrite: O_RDWR, create: O_RDWR | O_CREAT | O_EXCL } as const;
// Yarn's Plug'n'Play does not have the methods `sync` and `datasync` of a file handle.
const syncData = promisify(fdatasync);

export const realFileSystem: FileSystem = {
  async open(path, mode) {
    const handle = await fs.open(path, FLAGS[mode], 0o600);
    if (mode === 'create' && process.getuid?.() === 0) {
      // A file that root creates, as with sudo, belongs to the owner of the directory, who could not use it otherwise.
      const { uid, gid } = statSync(dirname(path));
      await handle.chown(uid, gid).catch(() => {});
    }
    return {
      read: async (...args) => (await handle.read(...args)).bytesRead,
      // Write synchronously, because a write takes microseconds and the thread pool would add several times as much.
      write: async (...args) => writeSync(handle.fd, ...args),
      datasync: () => syncData(handle.fd),
      truncate: (length) => handle.truncate(length),
      stat: async () => fstatSync(handle.fd),
      close: () => handle.close(),
    };
  },
  rename: fs.rename,
  link: fs.link,
  unlink: fs.unlink,
  mkdir: (path) => fs.mkdir(path, { mode: 0o700 }).then(() => fs.chmod(path, 0o700).catch(() => {})),
  chmod: fs.chmod,
  readdir: (path) => fs.readdir(path),
  // Synchronous, because this takes a few microseconds and the thread pool would add several times as much.
  stat: async (path) => statSync(path),
  async version(path) {
    const { ino, size, mtimeMs, ctimeMs } = statSync(path);
    return [ino, size, mtimeMs, ctimeMs].join(':');
  },
  async syncDirectory(path) {
    // On Windows, Node cannot open a directory. NTFS records changes of names in its journal.
    if (process.platform === 'win32') return;
    const handle = await fs.open(path, O_RDONLY);
    try {
      await promisify(fsync)(handle.fd);
    } catch (error) {
      // Some file systems do not support fsync on directories.
      if (!['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes(errnoOf(error) ?? '')) throw error;
    } finally {
      await handle.close();
    }
  },
};

/** The code of an error, such as `ENOSPC`; undefined for an error without a code. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error && 'code' in error)) return undefined;
  // Node 20 has no name for this error of Linux.
  if ('errno' in error && error.errno === -122 && process.platform === 'linux') return 'EDQUOT';
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Describes an error of the system in words. For any other error, returns its message. */
export function systemReason(error: unknown): string {
  const code = errnoOf(error);
  // Node 20 has no words for EDQUOT, and no version has any for an unknown host name.
  if (code === 'EDQUOT') return 'the disk quota is used up';
  if (code === 'ENOTFOUND') return 'host not found (ENOTFOUND)';
  const entry = [...getSystemErrorMap().values()].find(([name]) => name === code);
  return entry?.[1] ?? ((error instanceof Error && error.message) || String(error));
}

/** Like `systemReason`, with the path of the error, unless the action that failed already names it. */
export function systemMessageOf(error: unknown, action = ''): string {
  const path = error instanceof Error && 'path' in error ? String(error.path) : '';
  return action.includes(path) ? systemReason(error) : `${systemReason(error)} (${path})`;
}

/** Whether the file system refuses writes for now. Unlike after other errors, the same write can succeed later. */
export const isUnwritable = (error: unknown): boolean =>
  isNoSpace(error) || ['EFBIG', 'EROFS'].includes(errnoOf(error) ?? '');

export const isNoSpace = (error: unknown): boolean => ['ENOSPC', 'EDQUOT'].includes(errnoOf(error) ?? '');

/** Whether the error means that the file or directory does not exist. */
export const isMissing = (error: unknown): error is Error => errnoOf(error) === 'ENOENT';

/** The process that has locked a directory, as far as it is known. */
export type LockOwner = { pid?: number; url?: string };

/**
 * A directory cannot be locked (directory-lock.ts). `hint` is a next step for the user. `owner` is set if another process
 * holds or may hold the lock.
 */
export class LockError extends Error {
  override name = 'LockError';
  readonly hint: string;
  readonly owner: LockOwner | undefined;

  constructor(message: string, hint: string, options: ErrorOptions & { owner?: LockOwner } = {}) {
    super(message, options);
    this.hint = hint;
    this.owner = options.owner;
  }
}

/** Writes all of `buffer` at `position`, in several writes if the system writes only a part at once. */
export async function writeFully(file: OpenFile, buffer: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < buffer.length; ) {
    const written = await file.write(buffer, done, buffer.length - done, position + done);
    if (written <= 0) throw new Error('the file system wrote 0 bytes');
    done += written;
  }
}

/** Reads until `buffer` is full or the file ends. Returns the number of bytes read. */
export async function readFully(file: OpenFile, buffer: Uint8Array, position: number): Promise<number> {
  let done = 0;
  while (done < buffer.length) {
    const read = await file.read(buffer, done, buffer.length - done, position + done);
    if (read <= 0) break;
    done += read;
  }
  return done;
}

/** Reads the bytes from `start` to `end`, or to the end of the file. */
export async function readRange(file: OpenFile, start: number, end: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(end - start);
  return bytes.subarray(0, await readFully(file, bytes, start));
}

/** Calls `use` with the file and closes the file afterwards, even if `use` throws. */
export async function withFile<T>(file: OpenFile, use: (file: OpenFile) => Promise<T>): Promise<T> {
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

/** Reads a file, or only its first `maxBytes` bytes. Undefined if the file does not exist. */
export async function readBytes(
  fileSystem: FileSystem,
  path: string,
  maxBytes = Number.POSITIVE_INFINITY,
): Promise<Buffer | undefined> {
  try {
    return await withFile(await fileSystem.open(path, 'read'), async (file) =>
      readRange(file, 0, Math.min((await file.stat()).size, maxBytes)),
    );
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Like `readBytes`, for UTF-8 text. */
export const readTextFile = async (...args: Parameters<typeof readBytes>): Promise<string | undefined> =>
  (await readBytes(...args))?.toString('utf8');

type FileParts = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** Creates a file with mode 0600 and syncs its contents, but not its name. Fails with EEXIST if the name is taken. */
export async function createFile(fileSystem: FileSystem, path: string, parts: FileParts): Promise<void> {
  await withFile(await fileSystem.open(path, 'create'), async (file) => {
    let position = 0;
    for await (const part of parts) {
      await writeFully(file, part, position);
      position += part.length;
    }
    await file.datasync();
  });
}

/** Creates or replaces a file atomically and durably. A crash can leave a file for which `isTemporaryName` is true. */
export async function replaceFile(fileSystem: FileSystem, path: string, parts: FileParts): Promise<void> {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  try {
    await createFile(fileSystem, temporary, parts);
    await fileSystem.rename(temporary, path);
  } catch (error) {
    await fileSystem.unlink(temporary).catch(() => {});
    throw error;
  }
  await fileSystem.syncDirectory(dirname(path));
}

/** A unique name for a temporary file that will become `name`, which can be a path. */
export const temporaryName = (name: string): string => `${name}.new-${randomBytes(8).toString('hex')}`;

/** Whether a name has the form of those that `temporaryName` makes. */
export const isTemporaryName = (name: string): boolean => /\.new-[0-9a-f]+$/.test(name);

/** Deletes a file if it exists. */
export async function removeFile(fileSystem: FileSystem, path: string): Promise<void> {
  await fileSystem.unlink(path).catch((error) => {
    if (!isMissing(error)) throw error;
  });
}

/**
 * Creates the directory and its missing parents with mode 0700, whatever the umask is. `fsyncAncestors` syncs their names.
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

/**
 * Like `makeDirectory`, and sets mode 0700 on a directory that existed. That can fail silently if another user owns it, who
 * may have given this user access, as in a container with a random user id. So its files must be private themselves.
 */
export async function makePrivateDirectory(fileSystem: FileSystem, path: string): Promise<void> {
  await makeDirectory(fileSystem, path);
  await fileSystem.chmod(path, 0o700).catch(() => {});
}

/** Syncs the names in a directory, and its own and its ancestors' names, which a killed process may not have synced. */
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
