import { errnoOf, LockError, systemMessageOf } from '../system/file-system.ts';

/** What a caller may want to know about an error of a store. The command line has a hint for some of these codes. */
export type StoreErrorCode =
  | 'missing' // There is no store.
  | 'in_use' // Another process has locked the directory, or may have locked it.
  | 'changed' // Another program has moved, replaced, deleted or changed the journal while it was in use.
  | 'key_request' // The request for a new API key is not valid.
  | 'key_missing' // There is no API key with this name.
  | 'key_exists' // There is already an API key with this name.
  | 'privilege' // The role may not do this in the database.
  | 'other'; // The message and the hint say everything.

/** An operation on a store or on its API keys failed. `hint` is a next step, as far as the store knows one. */
export class StoreError extends Error {
  readonly code: StoreErrorCode;
  readonly hint: string;

  constructor(message: string, hint: string, options: ErrorOptions & { code?: StoreErrorCode } = {}) {
    super(message, options);
    this.name = new.target.name;
    this.code = options.code ?? 'other';
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
    { outcome, ...options }: ErrorOptions & { code?: StoreErrorCode; outcome: 'not_done' | 'unknown' },
  ) {
    super(message, hint, options);
    this.outcome = outcome;
  }
}

/** Nothing was stored, for example because the disk is full. In most cases, a retry can succeed later. */
export class StoreUnwritableError extends StoreError {}

/** The store has stopped, because a write failed, or another program changed it. The last change may have been stored. */
export class StoreFailedError extends StoreError {}

export const storeMissingError = (place: string): StoreError =>
  new StoreError(`there is no store in ${place}`, 'check the directory or URL', { code: 'missing' });

export const noIdsLeftError = (): StoreUnwritableError =>
  new StoreUnwritableError('the store has no ids left', 'use a new store');

/** Converts any error to a StoreError. Its message begins with `cannot ${action}`, except for a StoreError or LockError. */
export function toStoreError(error: unknown, action: string): StoreError {
  if (error instanceof StoreError) return error;
  const message = systemMessageOf(error, action);
  if (error instanceof LockError)
    return new StoreError(message, error.hint, { cause: error, code: error.owner ? 'in_use' : 'other' });
  return new StoreError(`cannot ${action}: ${message}`, fileSystemHint(errnoOf(error)), { cause: error });
}

function fileSystemHint(errno: string | undefined): string {
  switch (errno) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'free some disk space, or raise the quota, then try again';
    case 'EROFS':
      return 'make the file system writable, or choose another directory';
    case 'EACCES':
    case 'EPERM':
      return 'give this user access to the directory and its files, or choose another one';
    case 'ENOENT':
    case 'ENOTDIR':
    case 'EEXIST':
    case 'EISDIR':
    case 'ELOOP':
    case 'ENAMETOOLONG':
      return 'check each part of the path, and that its disk is mounted; or choose another directory';
    default:
      return 'check the disk, its file system, and the limits of this process (ulimit -a), then try again';
  }
}
