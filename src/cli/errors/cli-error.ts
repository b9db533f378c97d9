import type { CliErrorCode } from './error-codes.ts';

/** An error that the user can mend. `hint` is the next step, mostly one command. */
export class CliError extends Error {
  readonly code: CliErrorCode;
  readonly hint: string | undefined;

  constructor(message: string, options: { code: CliErrorCode; hint?: string | undefined; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.code = options.code;
    this.hint = options.hint;
  }
}

/** An argument, an option or a setting is wrong: exit code 2. */
export function usageError(message: string, hint?: string): CliError {
  return new CliError(message, { code: 'usage', hint });
}

/** A file or directory could not be read or written: exit code 1. */
export function fileError(action: string, path: string, cause: unknown, hint?: string): CliError {
  const reason = systemReason(cause);
  return new CliError(`cannot ${action} ${path}: ${reason}`, {
    code: 'file_error',
    hint,
    cause,
  });
}

const REASONS: Record<string, string> = {
  EACCES: 'permission denied',
  EADDRINUSE: 'the address is in use',
  EADDRNOTAVAIL: 'this machine has no such address',
  EISDIR: 'it is a directory',
  ELOOP: 'too many symbolic links',
  ENOENT: 'it does not exist',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'part of the path is not a directory',
  ENOTFOUND: 'there is no such host',
  EPERM: 'the operation is not permitted',
  EROFS: 'the file system is read-only',
};

/** A system error in words. */
export function systemReason(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return (code !== undefined && REASONS[code]) || message || String(error);
}
