import { constants, fstatSync, type Stats, statSync, writeSync } from 'node:fs';
import * as fs from 'node:fs/promises';

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
  /** A string that changes whenever the file is modified or replaced. */
  version(path: string): Promise<string>;
  /** Waits until created, renamed and deleted names in the directory are on the disk. */
  syncDirectory(path: string): Promise<void>;
}

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL } = constants;
// With O_NONBLOCK, opening a named pipe does not wait for a writer. Windows has no such flag.
const O_NONBLOCK = constants.O_NONBLOCK ?? 0;
const FLAGS = { read: O_RDONLY | O_NONBLOCK, readwrite: O_RDWR, create: O_RDWR | O_CREAT | O_EXCL } as const;

/** The file system of this machine. */
export const realFileSystem: FileSystem = {
  async open(path, mode) {
    const handle = await fs.open(path, FLAGS[mode], 0o600);
    return {
      read: async (...args) => (await handle.read(...args)).bytesRead,
      // Write synchronously, because a write takes microseconds and the thread pool would add several times as much.
      write: async (...args) => writeSync(handle.fd, ...args),
      datasync: () => handle.datasync(),
      truncate: (length) => handle.truncate(length),
      stat: async () => fstatSync(handle.fd),
      close: () => handle.close(),
    };
  },
  rename: fs.rename,
  link: fs.link,
  unlink: fs.unlink,
  mkdir: (path) => fs.mkdir(path, { mode: 0o700 }),
  chmod: fs.chmod,
  readdir: (path) => fs.readdir(path),
  // Synchronously, because this takes less than a microsecond and the thread pool would add twenty.
  stat: async (path) => statSync(path),
  async version(path) {
    const { ino, size, mtimeMs, ctimeMs } = statSync(path);
    return [ino, size, mtimeMs, ctimeMs].join(':');
  },
  async syncDirectory(path) {
    // Windows cannot open a directory, but writes changed directory entries to the disk immediately.
    if (process.platform === 'win32') return;
    const handle = await fs.open(path, O_RDONLY);
    try {
      await handle.sync();
    } catch (error) {
      // Some file systems do not support fsync on directories.
      if (!['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes(errnoOf(error) ?? '')) throw error;
    } finally {
      await handle.close();
    }
  },
};

/** Returns a file system whose reads and opens throw the reason of `signal` after it was aborted. */
export function abortable(fileSystem: FileSystem, signal: AbortSignal | undefined): FileSystem {
  if (signal === undefined) return fileSystem;
  return {
    ...fileSystem,
    async open(path, mode) {
      signal.throwIfAborted();
      const file = await fileSystem.open(path, mode);
      return {
        ...file,
        async read(...args) {
          signal.throwIfAborted();
          return file.read(...args);
        },
      };
    },
  };
}

/** Returns a file system that reports how long each sync of a file takes, in milliseconds, also if the sync fails. */
export function timedSyncs(
  files: FileSystem,
  elapsed: () => number,
  onSync: (milliseconds: number) => void,
): FileSystem {
  return {
    ...files,
    async open(path, mode) {
      const file = await files.open(path, mode);
      return {
        ...file,
        async datasync() {
          const started = elapsed();
          try {
            await file.datasync();
          } finally {
            onSync(elapsed() - started);
          }
        },
      };
    },
  };
}

/** The errno name (such as `ENOSPC`) of a system error; undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error && 'code' in error)) return undefined;
  // Node 20 has no name for this error of Linux.
  if ('errno' in error && error.errno === -122 && process.platform === 'linux') return 'EDQUOT';
  return typeof error.code === 'string' ? error.code : undefined;
}

/** The message of an error. Node 20 has no name for EDQUOT, so its message is written here. */
export function systemMessageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return errnoOf(error) === 'EDQUOT' ? 'EDQUOT: the disk quota is used up' : error.message;
}

/**
 * Whether the file system refuses writes for now: no space, no quota, the maximum file size, or a read-only file system.
 * Unlike after other errors, the same write can succeed later.
 */
export const isUnwritable = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS'].includes(errnoOf(error) ?? '');

/** Whether the error means that the file or directory does not exist. */
export const isMissing = (error: unknown): error is Error => errnoOf(error) === 'ENOENT';

// The errors of directory-lock.ts. They are here so that commands can recognize them without loading that module.

/** Another process holds the lock. `pid` and `url` are that process's, if known. */
export class DirectoryInUseError extends Error {
  override name = 'DirectoryInUseError';
  readonly directory: string;
  readonly pid: number | undefined;
  readonly url: string | undefined;

  constructor(directory: string, owner: { pid?: number | undefined; url?: string | undefined }) {
    super(`${directory} is in use by another process${owner.pid ? ` (pid ${owner.pid})` : ''}`);
    this.directory = directory;
    this.pid = owner.pid;
    this.url = owner.url;
  }
}

/** The directory cannot be locked. `hint` is a next step for the user. */
export class LockError extends Error {
  override name = 'LockError';
  readonly hint: string;

  constructor(message: string, hint: string, options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}
