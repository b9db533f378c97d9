import { join } from 'node:path';
import { FileChangedError, NotAppendedError } from '../../system/append-file.ts';
import { errnoOf, isUnwritable } from '../../system/file-system.ts';
import { StoreFailedError, StoreUnwritableError, toStoreError } from '../errors.ts';
import { JOURNAL, type JournalSettings } from './load-journal.ts';

/**
 * Remembers whether a store can read and write, and notifies the user once of each change:
 *
 * - `writable`: it can do both.
 * - `refused`: the disk refuses writes for now, or another server uses the store. Each write is tried again.
 * - `failed`: it can only read until a restart, because a write failed and may have damaged the end of the journal.
 * - `stopped`: it cannot even read, because the journal was deleted or changed, or seeding failed.
 */
export class WriteStatus {
  #settings: Pick<JournalSettings, 'onWarning' | 'onFailure'>;
  #path: string;
  #state: 'writable' | 'refused' | 'failed' | 'stopped' = 'writable';
  /** Set in the states `failed` and `stopped`. */
  #failure: StoreFailedError | undefined;

  constructor(settings: Pick<JournalSettings, 'directory' | 'onWarning' | 'onFailure'>) {
    this.#settings = settings;
    this.#path = join(settings.directory, JOURNAL);
  }

  /** @throws StoreFailedError in the state `stopped` */
  throwIfStopped(): void {
    if (this.#state === 'stopped') throw this.#failure;
  }

  /** @throws StoreFailedError in the states `failed` and `stopped` */
  throwIfFailed(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Records that the store cannot write for now. Returns the error for requests whose data was not stored. */
  refused(error: unknown): StoreUnwritableError {
    const { message, hint } = toStoreError(error, `write ${this.#path}`);
    if (this.#state === 'writable') {
      this.#state = 'refused';
      this.#settings.onWarning(`${message}; the store can only be read until writing is possible again`);
    }
    return new StoreUnwritableError(message, hint, { cause: error });
  }

  /** Records a failed write, and returns the error for the requests that needed it. */
  writeFailed(error: unknown): StoreUnwritableError | StoreFailedError {
    if (error instanceof NotAppendedError) return this.refused(error.cause);
    if (this.#failure) return this.#failure;
    if (isUnwritable(error)) {
      const { message, hint } = this.refused(error);
      return new StoreFailedError(message, hint, { cause: error });
    }
    if (error instanceof FileChangedError) return this.stopped(error);
    const failure = this.#fail('failed', error);
    this.#settings.onWarning(`${failure.message}; the store can only be read until the server is restarted`);
    return failure;
  }

  /** Records the error of a check whether the store can write. Most errors mean only that it cannot write for now. */
  checkFailed(error: unknown): StoreUnwritableError | StoreFailedError {
    const isDefect = error instanceof FileChangedError || errnoOf(error) === 'EIO';
    return isDefect ? this.writeFailed(error) : this.refused(error);
  }

  /** Records that memory and disk may differ, so that the store cannot even be read any more. */
  stopped(error: unknown): StoreFailedError {
    const failure = this.#fail('stopped', error);
    this.#settings.onFailure(failure);
    return failure;
  }

  /** Records that the store can write. */
  succeeded(): void {
    if (this.#state !== 'refused') return;
    this.#state = 'writable';
    this.#settings.onWarning(`${this.#path} can be written again`);
  }

  #fail(state: 'failed' | 'stopped', error: unknown): StoreFailedError {
    this.#state = state;
    const { message, hint } = toStoreError(error, `write ${this.#path}`);
    this.#failure = new StoreFailedError(message, hint, { cause: error });
    return this.#failure;
  }
}
