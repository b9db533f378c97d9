import { errnoOf } from './files.ts';

/** The store cannot be opened or used as it stands. `hint` says what to do about it. */
export class StoreError extends Error {
  readonly hint: string;

  constructor(message: string, hint: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.hint = hint;
  }
}

/** Another server has the directory open. `pid` and `url` are that server's, where it told them. */
export class StoreInUseError extends StoreError {
  readonly pid: number | undefined;
  readonly url: string | undefined;

  constructor(directory: string, owner: { pid?: number | undefined; url?: string | undefined }) {
    const who = [owner.pid && `pid ${owner.pid}`, owner.url && `at ${owner.url}`].filter(Boolean).join(' ');
    super(
      `${directory} is in use by another server${who && ` (${who})`}`,
      'use that server, stop it, or choose another directory with --data',
    );
    this.pid = owner.pid;
    this.url = owner.url;
  }
}

/** A file of the store does not hold what was written to it; it is left as it is. */
export class StoreDamagedError extends StoreError {}

/** A write or a sync failed: what was acknowledged is safe, and nothing more is accepted. */
export class StoreFailedError extends StoreError {}

/** What was asked for is not valid. */
export class StoreRequestError extends StoreError {}

/** There is nothing of that name. */
export class StoreNotFoundError extends StoreError {}

/** Only an empty store can be seeded. */
export class StoreNotEmptyError extends StoreError {}

/** What to tell of an error that the file system gave while `doing` something to the store. */
export function fileError(error: unknown, doing: string): StoreError {
  if (error instanceof StoreError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new StoreError(`cannot ${doing}: ${message}`, hintFor(errnoOf(error)), { cause: error });
}

/** What a person can do about an errno. */
export function hintFor(errno: string | undefined): string {
  switch (errno) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'free some space on that disk, then start again';
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return 'make the directory writable for this user, or choose another with --data';
    case 'ENOTDIR':
    case 'EEXIST':
      return 'choose a directory with --data';
    case 'EMFILE':
    case 'ENFILE':
      return 'raise the limit of open files (ulimit -n), then start again';
    default:
      return 'check the disk and its file system, then start again';
  }
}
