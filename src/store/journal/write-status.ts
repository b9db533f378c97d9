import { FileChangedError, NotAppendedError } from '../../system/append-file.ts';
import { isUnwritable } from '../../system/file-system.ts';
import { StoreFailedError, StoreUnavailableError, toStoreError } from '../errors.ts';

export type WriteStatusOptions = {
  /** The path of the journal. */
  path: string;
  onWarning: (message: string) => void;
  /** Called once if the store cannot even be read any more. */
  onFailure: (error: StoreFailedError) => void;
};

/** Remembers whether a store can write, and notifies the user once of each change. */
export class WriteStatus {
  #options: WriteStatusOptions;
  #isRefused = false;
  #failure: StoreFailedError | undefined;
  #isStopped = false;

  constructor(options: WriteStatusOptions) {
    this.#options = options;
  }

  /** @throws StoreFailedError after `stop` */
  checkReadable(): void {
    if (this.#isStopped) throw this.#failure;
  }

  /** @throws StoreFailedError if a write failed in a way that only a restart can clear up */
  checkWritable(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Records that the store cannot write for now. Returns the error for requests whose data was not stored. */
  refused(error: unknown): StoreUnavailableError {
    const { path, onWarning } = this.#options;
    const { message, hint } = toStoreError(error, `write ${path}`);
    if (!this.#isRefused) {
      onWarning(`${message}; the store can only be read until writing is possible again`);
    }
    this.#isRefused = true;
    return new StoreUnavailableError(message, hint, { cause: error });
  }

  /** Records a failed write, and returns the error for the requests that needed it. */
  failed(error: unknown): StoreUnavailableError | StoreFailedError {
    if (error instanceof NotAppendedError) return this.refused(error.cause);
    if (this.#failure) return this.#failure;
    if (isUnwritable(error)) {
      const { message, hint } = this.refused(error);
      return new StoreFailedError(message, hint, { cause: error });
    }
    if (error instanceof FileChangedError) return this.stop(error);
    const failure = this.#fail(error);
    this.#options.onWarning(`${failure.message}; the store can only be read until the server is restarted`);
    return failure;
  }

  /** Records that memory and disk may differ, so that the store cannot even be read any more. */
  stop(error: unknown): StoreFailedError {
    this.#isStopped = true;
    const failure = this.#fail(error);
    this.#options.onFailure(failure);
    return failure;
  }

  /** Records that the store can write. */
  succeeded(): void {
    if (!this.#isRefused) return;
    this.#isRefused = false;
    this.#options.onWarning(`${this.#options.path} can be written again`);
  }

  #fail(error: unknown): StoreFailedError {
    const { message, hint } = toStoreError(error, `write ${this.#options.path}`);
    this.#failure = new StoreFailedError(message, hint, { cause: error });
    return this.#failure;
  }
}
