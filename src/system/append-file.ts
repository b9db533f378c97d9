import { errnoOf, isUnwritable, type OpenFile } from './file-system.ts';
import { writeFully } from './files.ts';

/** Nothing was appended, because the file system refuses writes for now. A later call can succeed (see `recovers`). */
export class NotAppendedError extends Error {
  override name = 'NotAppendedError';
  readonly code: string | undefined;

  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.code = errnoOf(cause);
  }
}

/** Another program deleted the file or changed its size. */
export class FileChangedError extends Error {
  override name = 'FileChangedError';
}

/** A file open for durable appends. Only this object may write to the file. */
export class AppendFile {
  #file: OpenFile;
  /** The end of the last durable append. */
  #end: number;
  /** Whether a failed append may have left bytes after `#end`. */
  #isTorn = false;
  #last: Promise<unknown> = Promise.resolve();
  #failure: { error: unknown } | undefined;
  #isTemporary: (error: unknown) => boolean;

  /**
   * `end` is the current file size in bytes. Without `recovers`, nothing is appended after the first failed append: every
   * later call throws the error of that append.
   */
  constructor(file: OpenFile, end: number, { recovers = false } = {}) {
    this.#file = file;
    this.#end = end;
    this.#isTemporary = recovers ? isUnwritable : () => false;
  }

  /**
   * Appends the bytes and syncs them. Concurrent calls run one after the other. Returns the offset of the first byte.
   *
   * @throws NotAppendedError if nothing was appended and a later append can succeed
   * @throws FileChangedError if another program deleted the file or changed its size. Every later call throws this too
   * @throws any other error if the bytes may have been appended. If the file system only refuses writes for now, the next
   * append first removes these bytes. Otherwise, every later call fails
   */
  append(bytes: Uint8Array): Promise<number> {
    return this.#inOrder(() => this.#append(bytes));
  }

  /** Does what an append does first: removes the bytes that a failed append left. @throws like `append` */
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

  async #append(bytes: Uint8Array): Promise<number> {
    await this.#prepare();
    const offset = this.#end;
    try {
      await writeFully(this.#file, bytes, offset);
      await this.#file.datasync();
      // The file may have been deleted during the sync.
      await this.#check((size) => size === offset + bytes.length);
    } catch (error) {
      this.#isTorn = true;
      if (!this.#isTemporary(error)) throw this.#fail(error);
      await this.#rollBack().catch((rollBackError) => {
        if (!this.#isTemporary(rollBackError)) this.#fail(rollBackError);
        throw error;
      });
      throw new NotAppendedError(error);
    }
    this.#end += bytes.length;
    return offset;
  }

  async #prepare(): Promise<void> {
    if (this.#failure) throw this.#failure.error;
    try {
      if (this.#isTorn) await this.#rollBack();
      await this.#check((size) => size === this.#end);
    } catch (error) {
      throw this.#isTemporary(error) ? new NotAppendedError(error) : this.#fail(error);
    }
  }

  /** Syncs the truncation too. Otherwise, bytes that are reported as not appended could return after a power loss. */
  async #rollBack(): Promise<void> {
    await this.#check((size) => size >= this.#end);
    await this.#file.truncate(this.#end);
    await this.#file.datasync();
    this.#isTorn = false;
  }

  async #check(isExpected: (size: number) => boolean): Promise<void> {
    const { size, nlink } = await this.#file.stat();
    // Data written to a deleted file is lost when the process exits.
    if (nlink === 0) throw new FileChangedError('the file was deleted while it was in use');
    if (!isExpected(size)) throw new FileChangedError('another program changed the file while it was in use');
  }

  #fail(error: unknown): unknown {
    this.#failure = { error };
    return error;
  }
}
