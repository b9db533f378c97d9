import type { OpenFile } from './file-system.ts';
import { writeFully } from './files.ts';

/**
 * A file open for durable appends. Only this object may write to the file. Appends fail if another program changed the
 * file size or deleted the file.
 */
export class AppendFile {
  #file: OpenFile;
  #end: number;
  #last: Promise<unknown> = Promise.resolve();
  #failure: { error: unknown } | undefined;

  /** `end` is the current file size in bytes. */
  constructor(file: OpenFile, end: number) {
    this.#file = file;
    this.#end = end;
  }

  /**
   * Appends the bytes and syncs them. Concurrent calls run one after the other. Returns the offset of the first byte.
   *
   * @throws if the append fails. Every later call throws the same error, because the end of the file is unknown then
   */
  append(bytes: Uint8Array): Promise<number> {
    const appended = this.#last.then(() => this.#append(bytes));
    this.#last = appended.catch(() => {});
    return appended;
  }

  /** @throws if the file was deleted, if another program changed its size, or if an earlier append failed */
  async check(): Promise<void> {
    if (this.#failure) throw this.#failure.error;
    try {
      const { size, nlink } = await this.#file.stat();
      // Data written to a deleted file is lost when the process exits.
      if (nlink === 0) throw new Error('the file was deleted while it was in use');
      if (size !== this.#end) throw new Error('another program changed the file while it was in use');
    } catch (error) {
      this.#failure = { error };
      throw error;
    }
  }

  /** Waits for running appends, then closes the file. */
  async close(): Promise<void> {
    await this.#last;
    await this.#file.close();
  }

  async #append(bytes: Uint8Array): Promise<number> {
    await this.check();
    const offset = this.#end;
    try {
      await writeFully(this.#file, bytes, offset);
      await this.#file.datasync();
    } catch (error) {
      this.#failure = { error };
      throw error;
    }
    this.#end += bytes.length;
    // The file may have been deleted during the sync.
    await this.check();
    return offset;
  }
}
