import {
  errnoOf,
  type FileStatus,
  type FileSystem,
  isMissing,
  isUnwritable,
  systemMessageOf,
  writeFully,
} from './file-system.ts';

/** The disk refuses writes for now, so nothing was appended. `cause` is the system error. A later append can succeed. */
export class NotAppendedError extends Error {
  override name = 'NotAppendedError';
  readonly code: string | undefined;

  constructor(cause: unknown) {
    super(systemMessageOf(cause), { cause });
    this.code = errnoOf(cause);
  }
}

/** Throws NotAppendedError if the error means that the disk refuses writes for now, otherwise the error itself. */
export function throwNotAppended(error: unknown): never {
  throw isUnwritable(error) ? new NotAppendedError(error) : error;
}

/** Another program moved, replaced, deleted or changed the file. */
export class FileChangedError extends Error {
  override name = 'FileChangedError';
}

/** Which file is expected, and its size if that is known. */
type ExpectedFile = Omit<FileStatus, 'size'> & { size?: number };

/** Checks that a path leads to the expected file. @throws FileChangedError if not, or if the size differs; a system error */
export async function requireSameFile(
  files: FileSystem,
  path: string,
  expected: ExpectedFile,
): Promise<void> {
  const actual = await files.stat(path).catch((error) => {
    if (isMissing(error) || errnoOf(error) === 'ENOTDIR') return undefined;
    throw error;
  });
  requireSame(path, actual, expected);
}

function requireSame(path: string, actual: FileStatus | undefined, expected: ExpectedFile): void {
  // Data written to a file without this path would be missing at the next start.
  if (actual?.dev !== expected.dev || actual.ino !== expected.ino) {
    throw new FileChangedError(`${path} was moved, replaced or deleted while it was in use`);
  }
  if (expected.size !== undefined && actual.size !== expected.size) {
    throw new FileChangedError(`another program changed ${path} while it was in use`);
  }
}

/**
 * A file open for durable appends. Only this object may write to the file. After an error other than
 * `NotAppendedError`, only `close` may be called: bytes of the failed append may be on the disk.
 */
export type AppendFile = Awaited<ReturnType<typeof openAppendFile>>;

/**
 * Opens a file for durable appends.
 *
 * @param expected the status of the file when it was read
 * @throws FileChangedError if the path leads to another file, or the size has changed since then; a system error
 */
export async function openAppendFile(files: FileSystem, path: string, expected: FileStatus) {
  const file = await files.open(path, 'readwrite');
  /** Which file it is, and its size after the last append. As long as nothing else changes the file, `stat` returns this. */
  let status: FileStatus;
  try {
    status = await file.stat();
    requireSame(path, status, expected);
  } catch (error) {
    await file.close().catch(() => {});
    throw error;
  }
  let last: Promise<unknown> = Promise.resolve();

  function runAfterOthers<T>(run: () => Promise<T>): Promise<T> {
    const running = last.then(run);
    last = running.catch(() => {});
    return running;
  }

  /** Runs a write. If the disk refuses it, removes what it has appended, and throws NotAppendedError. */
  async function undoIfRefused(write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (error) {
      if (!isUnwritable(error)) throw error;
      const { size } = await file.stat();
      if (size > status.size) {
        // If the file was moved, these bytes may belong to another program, so they must not be removed.
        await requireSameFile(files, path, { ...status, size });
        await file.truncate(status.size);
        // Without the sync, the bytes could return after a power loss.
        await file.datasync();
      }
      throw new NotAppendedError(error);
    }
  }

  return {
    /**
     * Appends the bytes and syncs them. Concurrent calls run one after the other.
     *
     * @param start where to write; by default, at the end. The file then ends after the written bytes. If that makes it
     * shorter, the new size is durable only after the next append
     * @throws NotAppendedError if the disk refuses writes for now. The file has its old size again
     * @throws FileChangedError if another program moved, replaced, deleted or changed the file
     * @throws any other error: the bytes may be in the file
     */
    append: (bytes: Uint8Array, start?: number): Promise<void> =>
      runAfterOthers(async () => {
        const from = start ?? status.size;
        const size = from + bytes.length;
        await requireSameFile(files, path, status);
        await undoIfRefused(async () => {
          await writeFully(file, bytes, from);
          await file.datasync();
        });
        if (size < status.size) await file.truncate(size);
        // The file may have been moved or deleted during the sync.
        await requireSameFile(files, path, { ...status, size });
        status = { ...status, size };
      }),

    /**
     * Checks that `append` would find the file unchanged, and space for `bytes` bytes: writes zeros after the end, and
     * removes them again. If the process is killed in between, the file can end with zeros.
     *
     * @throws like `append`
     */
    probe: (bytes: number): Promise<void> =>
      runAfterOthers(async () => {
        const { size } = status;
        await requireSameFile(files, path, status);
        await undoIfRefused(() => writeFully(file, Buffer.alloc(bytes), size));
        await file.truncate(size);
      }),

    /** Waits for running appends and probes, then closes the file. */
    async close(): Promise<void> {
      await last;
      await file.close();
    },
  };
}
