import { constants, fstatSync, writeSync } from 'node:fs';
import * as fs from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** An open file. Offsets and lengths are bytes; `read` and `write` may do less than they were asked for. */
export interface OpenFile {
  read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<number>;
  write(buffer: Uint8Array, offset: number, length: number, position: number): Promise<number>;
  /** What was written is on the disk once this is done: the data, and the size that it needs to be found. */
  datasync(): Promise<void>;
  truncate(length: number): Promise<void>;
  /** Its bytes, and how many names it has: none where it was removed. */
  status(): Promise<{ size: number; names: number }>;
  close(): Promise<void>;
}

/** The calls of a file system that the store makes: a test hands over one that fails or forgets. */
export interface Files {
  /** `read`: reading only; `change`: reading and writing what is there; `create`: a new file, 0600. */
  open(path: string, how: 'read' | 'change' | 'create'): Promise<OpenFile>;
  rename(from: string, to: string): Promise<void>;
  /** Gives a file a second name, or fails with EEXIST. */
  link(path: string, name: string): Promise<void>;
  unlink(path: string): Promise<void>;
  /** Makes one directory, 0700. */
  mkdir(path: string): Promise<void>;
  readdir(path: string): Promise<string[]>;
  /** Something that differs whenever the file of that name is another, or was changed. */
  version(path: string): Promise<string>;
  /** Names that were made, changed or removed in the directory are on the disk once this is done. */
  syncDirectory(path: string): Promise<void>;
}

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL } = constants;
// A pipe that somebody put there has no bytes, and must not be waited for. Windows has no such flag.
const O_NONBLOCK = constants.O_NONBLOCK ?? 0;
const flags = { read: O_RDONLY | O_NONBLOCK, change: O_RDWR, create: O_RDWR | O_CREAT | O_EXCL } as const;

/** The file system of this machine. */
export const realFiles: Files = {
  async open(path, how) {
    const handle = await fs.open(path, flags[how], 0o600);
    return {
      read: async (...part) => (await handle.read(...part)).bytesRead,
      // It takes microseconds to hand bytes to the system: another thread would take a multiple of that to wake.
      write: async (...part) => writeSync(handle.fd, ...part),
      datasync: () => handle.datasync(),
      truncate: (length) => handle.truncate(length),
      status: async () => {
        // Microseconds, where a thread of the pool would take a multiple of that: a writer asks at every batch.
        const { size, nlink } = fstatSync(handle.fd);
        return { size, names: nlink };
      },
      close: () => handle.close(),
    };
  },
  rename: fs.rename,
  link: fs.link,
  unlink: fs.unlink,
  mkdir: (path) => fs.mkdir(path, { mode: 0o700 }),
  readdir: (path) => fs.readdir(path),
  async version(path) {
    const { ino, size, mtimeMs, ctimeMs } = await fs.stat(path);
    return [ino, size, mtimeMs, ctimeMs].join(':');
  },
  async syncDirectory(path) {
    // Windows opens no directory, and writes their entries through by itself.
    if (process.platform === 'win32') return;
    const handle = await fs.open(path, O_RDONLY);
    try {
      await handle.sync();
    } catch (error) {
      // A file system that has no such call has nothing to wait for either.
      if (!['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes(errnoOf(error) ?? '')) throw error;
    } finally {
      await handle.close();
    }
  },
};

/** The errno (`ENOSPC`) of an error that the file system gave. */
export function errnoOf(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** Whether the error says that there is no such file. */
export const isMissing = (error: unknown): boolean => errnoOf(error) === 'ENOENT';

/** Writes all of `buffer` at `position`, however little each call takes. */
export async function writeAll(file: OpenFile, buffer: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < buffer.length; ) {
    const written = await file.write(buffer, done, buffer.length - done, position + done);
    if (written <= 0) throw new Error('the file system took none of what was to be written');
    done += written;
  }
}

/** Reads until `buffer` is full or the file ends; says how many bytes there were. */
export async function readAll(file: OpenFile, buffer: Uint8Array, position: number): Promise<number> {
  for (let done = 0; ; ) {
    if (done === buffer.length) return done;
    const read = await file.read(buffer, done, buffer.length - done, position + done);
    if (read <= 0) return done;
    done += read;
  }
}

/** Runs `use` with the file, and closes it however that ends. */
export async function withFile<T>(file: OpenFile, use: (file: OpenFile) => Promise<T>): Promise<T> {
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

/** Writes a file whole in one step: beside, under the name `temporary`, and then in place of what is at `path`. */
export async function replaceFile(
  files: Files,
  path: string,
  temporary: string,
  parts: Iterable<Uint8Array>,
): Promise<void> {
  const directory = dirname(path);
  await withFile(await files.open(join(directory, temporary), 'create'), async (file) => {
    let position = 0;
    for (const part of parts) {
      await writeAll(file, part, position);
      position += part.length;
    }
    await file.datasync();
  });
  await files.rename(join(directory, temporary), path);
  await files.syncDirectory(directory);
}

/** Removes a file that may be gone already. */
export async function removeFile(files: Files, path: string): Promise<void> {
  await files.unlink(path).catch((error) => {
    if (!isMissing(error)) throw error;
  });
}

/** Makes the directory, and those above it that are missing. `syncUpward` makes their names last. */
export async function ensureDirectory(files: Files, directory: string): Promise<void> {
  const above = dirname(directory);
  try {
    await makeDirectory(files, directory);
  } catch (error) {
    if (!isMissing(error) || above === directory) throw error;
    await ensureDirectory(files, above);
    // Once more and not again: there are file systems where nothing can be made, and that say ENOENT.
    await makeDirectory(files, directory);
  }
}

async function makeDirectory(files: Files, directory: string): Promise<void> {
  try {
    await files.mkdir(directory);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
  }
}

/**
 * Syncs the names in a directory, its own name, and those above it: whoever made any of them may have been killed
 * before it was synced.
 */
export async function syncUpward(files: Files, directory: string): Promise<void> {
  await files.syncDirectory(directory);
  for (let above = dirname(directory); ; above = dirname(above)) {
    try {
      await files.syncDirectory(above);
    } catch (error) {
      // Working in a directory needs no right to read those above it.
      if (!['EACCES', 'EPERM', 'EROFS'].includes(errnoOf(error) ?? '')) throw error;
    }
    if (above === dirname(above)) return;
  }
}
