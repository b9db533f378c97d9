import { join } from 'node:path';
import { AppendFile } from '../../system/append-file.ts';
import { errnoOf, isMissing, isUnwritable } from '../../system/file-system.ts';
import { removeFile, replaceFile, temporaryName, withFile, writeFully } from '../../system/files.ts';
import { type DirectoryLock, LockError } from '../../system/lock/directory-lock.ts';
import { StoreError } from '../errors.ts';
import { JournalWriter } from './journal-writer.ts';
import {
  JOURNAL,
  type Journal,
  type JournalSettings,
  lockAndRead,
  openForAppending,
  readJournal,
} from './load-journal.ts';
import { WriteStatus } from './write-status.ts';

/** A new file of this size shows whether there is space for any single creation. */
const PROBE_BYTES = 2 ** 17;

/** After a check whether the journal can be written, later checks within this time get the same result. */
const CHECK_MS = 1_000;

/**
 * A journal that this process can read, and can write if it has locked the directory and the disk accepts writes.
 * `journal` and `writer` can be replaced when writing becomes possible, and by `replace`.
 */
export class JournalAccess {
  journal: Journal;
  /** Undefined until the journal can be written. With a writer, everything that was read is on the disk. */
  writer: JournalWriter | undefined;
  readonly status: WriteStatus;
  #lock: DirectoryLock | undefined;
  #settings: JournalSettings;
  #url: string | undefined;
  #check: { at: number; result: Promise<void> } | undefined;

  private constructor(settings: JournalSettings, journal: Journal, lock: DirectoryLock | undefined) {
    this.#settings = settings;
    this.journal = journal;
    this.#lock = lock;
    this.status = new WriteStatus(settings);
  }

  /** Opens the journal, or creates one. If the disk is full or read-only, the journal is only read. */
  static async open(settings: JournalSettings): Promise<JournalAccess> {
    let access: JournalAccess | undefined;
    try {
      const { journal, lock } = await lockAndRead(settings);
      access = new JournalAccess(settings, journal, lock);
      await access.#startWriter();
    } catch (error) {
      if (!isRefusal(error)) {
        await access?.close();
        throw error;
      }
      if (!access) {
        const journal = await readJournal(settings).catch((readError) => {
          // Without a journal, there is nothing to read.
          throw isMissing(readError) ? error : readError;
        });
        access = new JournalAccess(settings, journal, undefined);
      }
      access.status.refused(error);
    }
    return access;
  }

  /** Whether this process has locked the directory, so that it may write to the store's files. */
  get isLocked(): boolean {
    return this.#lock !== undefined;
  }

  /**
   * Checks whether the journal can be written, and makes it writable again if that is possible now. Runs at most once in
   * `CHECK_MS`.
   *
   * @throws StoreUnwritableError, StoreFailedError
   */
  async checkWritable(): Promise<void> {
    this.status.throwIfFailed();
    const now = this.#settings.clock.now();
    if (!this.#check || Math.abs(now - this.#check.at) >= CHECK_MS) {
      this.#check = { at: now, result: this.#tryToWrite() };
    }
    await this.#check.result;
  }

  /** Replaces the journal by one with these lines. @throws StoreFailedError */
  async replace(lines: AsyncIterable<Buffer>): Promise<void> {
    const { files, directory, clock } = this.#settings;
    const path = join(directory, JOURNAL);
    const old = this.writer;
    try {
      await replaceFile(files, path, lines);
      this.journal = await readJournal(this.#settings);
      // The new journal has no torn write, and is on the disk.
      const file = new AppendFile(await files.open(path, 'readwrite'), this.journal.size, { recovers: true });
      this.writer = new JournalWriter(this.journal, file, clock, this.status);
    } catch (error) {
      throw this.status.stopped(error);
    }
    await old?.close();
  }

  /** Publishes the server's URL to other servers that try to open the same directory. */
  announce(url: string): void {
    this.#url = url;
    this.#lock?.announce(url);
  }

  /** Completes pending writes. */
  async close(): Promise<void> {
    await this.#check?.result.catch(() => {});
    await this.writer?.close();
    await this.#lock?.release();
  }

  async #tryToWrite(): Promise<void> {
    let isKnown = true;
    try {
      if (this.writer) isKnown = await this.#probe(this.writer);
      else await this.#startWriter();
    } catch (error) {
      throw this.status.checkFailed(error);
    }
    if (isKnown) this.status.succeeded();
  }

  /**
   * Checks that the journal is unchanged and that there is space: writes a new file in the directory, and deletes it
   * again. Does not sync this file, so that frequent checks stay cheap. Returns false if this process cannot create
   * files, because the journal is open and may be writable anyway.
   */
  async #probe({ file }: JournalWriter): Promise<boolean> {
    const { files, directory } = this.#settings;
    await file.prepare();
    const path = join(directory, temporaryName(JOURNAL));
    try {
      await withFile(await files.open(path, 'create'), (probe) =>
        writeFully(probe, Buffer.alloc(PROBE_BYTES), 0),
      ).finally(() => removeFile(files, path));
      return true;
    } catch (error) {
      if (!['EMFILE', 'ENFILE', 'EACCES', 'EPERM'].includes(errnoOf(error) ?? '')) throw error;
      return false;
    }
  }

  /**
   * Locks the directory, reads the journal again if another process or a failed repair may have changed it, and removes
   * a torn write.
   */
  async #startWriter(): Promise<void> {
    if (!this.#lock) await this.#lockAgain();
    else if (this.journal.isStale) this.journal = await readJournal(this.#settings);
    const file = await openForAppending(this.#settings, this.journal);
    this.writer = new JournalWriter(this.journal, file, this.#settings.clock, this.status);
  }

  async #lockAgain(): Promise<void> {
    const { journal, lock } = await lockAndRead(this.#settings);
    if (journal.header.id !== this.journal.header.id) {
      await lock.release();
      throw new StoreError(`${this.#settings.directory} now has another store`, 'restart the server');
    }
    this.#lock = lock;
    this.journal = journal;
    if (this.#url !== undefined) lock.announce(this.#url);
  }
}

/** Whether the disk refuses writes for now, so that a store can only be read. */
const isRefusal = (error: unknown): boolean => isUnwritable(error instanceof LockError ? error.cause : error);
