import { join } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import type { AppendFile } from '../../system/append-file.ts';
import { fsyncAncestors } from '../../system/directories.ts';
import { type FileSystem, isMissing, isUnwritable } from '../../system/file-system.ts';
import { isTemporaryName, removeFile, replaceFile, temporaryName, writeFully } from '../../system/files.ts';
import { type DirectoryLock, LockError } from '../../system/lock/directory-lock.ts';
import { StoreError } from '../errors.ts';
import { JOURNAL, type Journal, openForAppending, readJournal } from './load-journal.ts';
import { encodeJournalHeader, newHeader } from './record-format.ts';

/** A new file of this size shows whether there is space for any single creation. */
const PROBE_BYTES = 2 ** 17;

export type AccessSettings = {
  directory: string;
  clock: Clock;
  files: FileSystem;
  lock: (directory: string) => Promise<DirectoryLock>;
  onWarning: (message: string) => void;
};

/**
 * A journal that this process can read, and that it can also write if it has locked the directory. Both fields are
 * replaced when a process that could not lock the directory at first has locked it.
 */
export class JournalAccess {
  journal: Journal;
  /** Undefined while the journal cannot be written. */
  file: AppendFile | undefined;
  #lock: DirectoryLock | undefined;
  #settings: AccessSettings;
  #url: string | undefined;

  private constructor(settings: AccessSettings, journal: Journal, lock: DirectoryLock | undefined) {
    this.#settings = settings;
    this.journal = journal;
    this.#lock = lock;
  }

  /**
   * Opens the journal, or creates one. If the disk is full or read-only, the journal is only read.
   *
   * @returns `refusal`: why the journal cannot be written for now
   */
  static async open(settings: AccessSettings): Promise<{ access: JournalAccess; refusal?: unknown }> {
    const { files, directory, clock } = settings;
    let access: JournalAccess | undefined;
    try {
      const { journal, lock } = await lockAndRead(settings);
      access = new JournalAccess(settings, journal, lock);
      await access.makeWritable();
      return { access };
    } catch (refusal) {
      try {
        if (!isRefusal(refusal)) throw refusal;
        access ??= new JournalAccess(settings, await readJournal(files, directory, clock.now()), undefined);
        return { access, refusal };
      } catch (error) {
        await access?.close();
        // Without a journal, there is nothing to read.
        throw isMissing(error) ? refusal : error;
      }
    }
  }

  /** Whether this process has locked the directory, so that it may write to the store's files. */
  get isLocked(): boolean {
    return this.#lock !== undefined;
  }

  /**
   * Makes the journal writable: locks the directory, reads the journal again if it was not locked before, and removes a
   * torn write.
   *
   * @throws if that is not possible now
   */
  async makeWritable(): Promise<AppendFile> {
    const { files, directory, clock, onWarning } = this.#settings;
    if (!this.#lock) {
      const { journal, lock } = await lockAndRead(this.#settings);
      this.#lock = lock;
      if (journal.header.id !== this.journal.header.id) {
        throw new StoreError(`${directory} now has another store`, 'restart the server');
      }
      this.journal = journal;
      if (this.#url !== undefined) lock.announce(this.#url);
    } else if (this.journal.isStale) {
      this.journal = await readJournal(files, directory, clock.now());
    }
    this.file = await openForAppending(files, directory, this.journal, clock.now(), onWarning);
    return this.file;
  }

  /**
   * Checks the journal, then writes a new file in the directory and deletes it again. Does not sync the file, so that
   * frequent checks stay cheap.
   */
  async probe(): Promise<void> {
    const { files, directory } = this.#settings;
    await this.file?.prepare();
    const path = join(directory, temporaryName(JOURNAL));
    try {
      const file = await files.open(path, 'create');
      try {
        await writeFully(file, Buffer.alloc(PROBE_BYTES), 0);
      } finally {
        await file.close();
      }
    } finally {
      await removeFile(files, path);
    }
  }

  /** Replaces the journal by one with these lines. */
  async replace(lines: Iterable<Buffer>): Promise<void> {
    const { files, directory, clock } = this.#settings;
    const old = this.file;
    await replaceFile(files, join(directory, JOURNAL), lines);
    this.journal = await readJournal(files, directory, clock.now());
    await this.makeWritable();
    await old?.close().catch(() => {});
  }

  /** Publishes the server's URL to other servers that try to open the same directory. */
  announce(url: string): void {
    this.#url = url;
    this.#lock?.announce(url);
  }

  async close(): Promise<void> {
    // All acknowledged data is synced, so an error while closing loses nothing.
    await this.file?.close().catch(() => {});
    await this.#lock?.release();
  }
}

/** Locks the directory, creates a journal if there is none, and reads it. A failure leaves nothing locked. */
async function lockAndRead({ directory, files, clock, lock: lockDirectory }: AccessSettings) {
  const lock = await lockDirectory(directory);
  try {
    const names = await files.readdir(directory);
    for (const name of names) {
      // A process that was killed can leave temporary files.
      if (/^(journal|bans)[.]/.test(name) && isTemporaryName(name)) await files.unlink(join(directory, name));
    }
    if (!names.includes(JOURNAL)) {
      const header = encodeJournalHeader(newHeader(clock.now()));
      await replaceFile(files, join(directory, JOURNAL), [header]);
    }
    await fsyncAncestors(files, directory);
    return { lock, journal: await readJournal(files, directory, clock.now()) };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Whether the disk refuses writes for now, so that a store can only be read. */
const isRefusal = (error: unknown): boolean => isUnwritable(error instanceof LockError ? error.cause : error);
