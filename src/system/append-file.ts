import {
  errnoOf,
  type FileStatus,
  type FileSystem,
  isMissing,
  isUnwritable,
  type OpenFile,
  systemMessageOf,
  writeFully,
} from './file-system.ts';

/** Nothing was appended. `cause` is the reason. A later call can succeed if the disk only refuses writes for now. */
export class NotAppendedError extends Error {
  override name = 'NotAppendedError';
  readonly code: string | undefined;

  constructor(cause: unknown) {
    super(systemMessageOf(cause), { cause });
    this.code = errnoOf(cause);
  }
}

/** Another program moved, replaced, deleted or changed the file. */
export class FileChangedError extends Error {
  override name = 'FileChangedError';
}

/** Which file is expected, and its size if that is known. */
type ExpectedFile = Omit<FileStatus, 'size'> & { size?: number };

/** Checks that a path still leads to the same file. @throws FileChangedError if it does not, or if the size differs */
export async function requireSameFile(
  files: FileSystem,
  path: string,
  expected: ExpectedFile,
): Promise<void> {
  const found = await files.stat(path).catch((error) => {
    if (isMissing(error) || errnoOf(error) === 'ENOTDIR') return undefined;
    throw error;
  });
  requireSame(path, found, expected);
}

function requireSame(path: string, found: FileStatus | undefined, expected: ExpectedFile): void {
  // Data written to a file without this path would be missing at the next start.
  if (found?.dev !== expected.dev || found.ino !== expected.ino) {
    throw new FileChangedError(`${path} was moved, replaced or deleted while it was in use`);
  }
  if (expected.size !== undefined && found.size !== expected.size) {
    throw new FileChangedError(`another program changed ${path} while it was in use`);
  }
}

type AppendOptions = {
  /** The status of the file when it was read. */
  expected?: FileStatus;
  /** The bytes after this offset, by default the end of the file, are removed before the first append. */
  end?: number;
  /** Calls `sync`, which syncs an append, and can measure its duration. */
  measureSync?: (sync: () => Promise<void>) => Promise<void>;
};

/**
 * A file open for durable appends. Only this object may write to the file. After an error other than
 * `NotAppendedError`, it must not be used again, unless the file system only refuses writes for now.
 */
export class AppendFile {
  #files: FileSystem;
  #path: string;
  #file: OpenFile;
  /** The expected status. While `#isTorn` is true, the size may be wrong. */
  #status: FileStatus;
  /** The end of the last durable append. */
  #end: number;
  /** Whether there may be bytes after `#end`, which must be removed before the next append. */
  #isTorn: boolean;
  #last: Promise<unknown> = Promise.resolve();
  #measureSync: Required<AppendOptions>['measureSync'];

  private constructor(
    files: FileSystem,
    path: string,
    file: OpenFile,
    status: FileStatus,
    { end = status.size, measureSync = (sync) => sync() }: AppendOptions,
  ) {
    this.#files = files;
    this.#path = path;
    this.#file = file;
    this.#status = status;
    this.#end = end;
    this.#isTorn = end < status.size;
    this.#measureSync = measureSync;
  }

  /** Opens a file. @throws FileChangedError if the file is not the expected one, or has changed since it was read */
  static async open(files: FileSystem, path: string, options: AppendOptions = {}): Promise<AppendFile> {
    const file = await files.open(path, 'readwrite');
    try {
      const status = await file.stat();
      if (options.expected) requireSame(path, status, options.expected);
      return new AppendFile(files, path, file, status, options);
    } catch (error) {
      await file.close().catch(() => {});
      throw error;
    }
  }

  /**
   * Appends the bytes and syncs them. Concurrent calls run one after the other. With `start`, replaces the bytes from
   * this offset to the end.
   *
   * @throws NotAppendedError if nothing was appended
   * @throws any other error if the bytes may have been appended. If the file system only refuses writes for now, the
   * next append first removes these bytes
   */
  append(bytes: Uint8Array, start?: number): Promise<void> {
    return this.#inOrder(() => this.#append(bytes, start ?? this.#end));
  }

  /** Does what `append` does first: removes bytes of a failed append, and checks the file. @throws like `append` */
  prepare(): Promise<void> {
    return this.#inOrder(() => this.#prepare());
  }

  /** Waits for running appends, then closes the file. */
  async close(): Promise<void> {
    await this.#last;
    await this.#file.close();
  }

  #inOrder<T>(run: () => Promise<T>): Promise<T> {
    const running = this.#last.then(run);
    this.#last = running.catch(() => {});
    return running;
  }

  async #append(bytes: Uint8Array, start: number): Promise<void> {
    await this.#prepare();
    try {
      await writeFully(this.#file, bytes, start);
      await this.#measureSync(() => this.#file.datasync());
      // The file may have been moved or deleted during the sync.
      const size = start + bytes.length;
      await requireSameFile(this.#files, this.#path, { ...this.#status, size });
      this.#status = { ...this.#status, size };
      this.#end = size;
    } catch (error) {
      this.#isTorn = true;
      if (!isUnwritable(error)) throw error;
      await this.#rollBack();
      throw new NotAppendedError(error);
    }
  }

  async #prepare(): Promise<void> {
    try {
      if (this.#isTorn) await this.#rollBack();
      await requireSameFile(this.#files, this.#path, this.#status);
    } catch (error) {
      throw isUnwritable(error) || error instanceof FileChangedError ? new NotAppendedError(error) : error;
    }
  }

  /** Removes the bytes after `#end`. Without the sync, they could return after a power loss. */
  async #rollBack(): Promise<void> {
    const { size } = await this.#file.stat();
    // If the file was moved, the bytes after `#end` may be those of another program, so they must not be removed.
    await requireSameFile(this.#files, this.#path, { ...this.#status, size: Math.max(size, this.#end) });
    await this.#file.truncate(this.#end);
    await this.#file.datasync();
    this.#status = { ...this.#status, size: this.#end };
    this.#isTorn = false;
  }
}
