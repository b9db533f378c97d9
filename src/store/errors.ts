import { DirectoryInUseError, errnoOf, LockError, systemMessageOf } from '../system/file-system.ts';

/** An operation on a store or on its API keys failed. `hint` is a next step for the user. */
export class StoreError extends Error {
  readonly hint: string;

  constructor(message: string, hint: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.hint = hint;
  }
}

/**
 * The store's database, or a file of the store, cannot be used for now. A retry can succeed. If `outcome` is `unknown`,
 * the change may have been stored.
 */
export class StoreUnavailableError extends StoreError {
  readonly outcome: 'not_done' | 'unknown';

  constructor(
    message: string,
    hint: string,
    { outcome, ...options }: ErrorOptions & { outcome: 'not_done' | 'unknown' },
  ) {
    super(message, hint, options);
    this.outcome = outcome;
  }
}

/** Nothing was stored, for example because the disk is full. In most cases, a retry can succeed later. */
export class StoreUnwritableError extends StoreError {}

/** A write or a check of the journal failed, or another program changed it. Data to be written may have been stored. */
export class StoreFailedError extends StoreError {}

/** The properties of a new API key are not valid. */
export class KeyRequestError extends StoreError {}

export class KeyNotFoundError extends StoreError {}

export class StoreMissingError extends StoreError {
  constructor(place: string, options?: ErrorOptions) {
    super(
      `there is no store in ${place}`,
      'check the directory or URL; to create a store there: pets serve --data <dir|url>',
      options,
    );
  }
}

export const noIdsLeftError = (): StoreUnwritableError =>
  new StoreUnwritableError('the store has no ids left', 'use a new store (--data of pets serve)');

/** Converts any error to a StoreError. The message of a system error gets the prefix `cannot ${action}`. */
export function toStoreError(error: unknown, action: string): StoreError {
  if (error instanceof StoreError) return error;
  if (error instanceof DirectoryInUseError) return inUseError(error);
  const message = systemMessageOf(error);
  const options = { cause: error };
  if (error instanceof LockError) return new StoreError(message, error.hint, options);
  return new StoreError(`cannot ${action}: ${message}`, fileSystemHint(errnoOf(error)), options);
}

function inUseError({ directory, pid, url }: DirectoryInUseError): StoreError {
  const owner = [pid && `pid ${pid}`, url && `at ${url}`].filter(Boolean).join(' ');
  return new StoreError(
    `${directory} is in use by another server${owner && ` (${owner})`}`,
    'use that server, stop it, or choose another directory with --data',
  );
}

function fileSystemHint(errno: string | undefined): string {
  switch (errno) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'free some disk space, then try again';
    case 'EROFS':
      return 'make the file system writable, or choose another directory (--data of pets serve)';
    case 'EACCES':
    case 'EPERM':
      return 'give this user access to the directory and its files, or choose another one (--data of pets serve)';
    case 'ENOENT':
    case 'ENOTDIR':
    case 'EEXIST':
      return 'choose another directory (--data of pets serve)';
    default:
      return 'check the disk, its file system, and the limits of this process (ulimit -a), then start again';
  }
}
