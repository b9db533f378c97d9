import { StoreError, type StoreErrorCode } from '../../store/errors.ts';
import { InterruptedError } from '../../system/clock.ts';
import { errnoOf, systemReason } from '../../system/file-system.ts';
import { type CliErrorCode, cliErrorCodes, type ExitCode } from './exit-codes.ts';

/** What a script may need to know about an error, besides its code and its message. */
export type ErrorFields = {
  /** The HTTP status of the response. It is 429 if an earlier response prevented the request. */
  status?: number | undefined;
  /** When the rate limit or a ban allows the next request, in ISO 8601. */
  until?: string | undefined;
  /** Set if an animal may or may not have been added. */
  mayHaveBeenAdded?: true | undefined;
  /** Repeating the command within 24 hours with this key adds no second animal. Set only if the outcome is unknown. */
  idempotencyKey?: string | undefined;
};

/** One of the program's own codes, or any code, such as that of a response, with an exit code. */
type Code = { code: CliErrorCode } | { code: string; exitCode: ExitCode };

/** An error as it is printed. `hint` is the next step of the user, usually a command. */
export class CliError extends Error {
  readonly code: string;
  readonly exitCode: ExitCode;
  readonly hint: string | undefined;
  readonly fields: ErrorFields;

  constructor(message: string, options: Code & ErrorFields & { hint?: string | undefined; cause?: unknown }) {
    const { code, hint, cause, ...rest } = options;
    const { exitCode, ...fields } = { exitCode: cliErrorCodes[code as CliErrorCode], ...rest };
    super(message, { cause });
    this.code = code;
    this.exitCode = exitCode;
    this.hint = hint;
    this.fields = fields;
  }

  /** Returns the same error with another hint, for callers that know a better next step. */
  withHint(hint: string): CliError {
    const { message, code, exitCode, fields, cause } = this;
    return new CliError(message, { ...fields, code, exitCode, hint, cause });
  }
}

/** Creates the error for wrong usage, such as an invalid argument, option or setting. Its exit code is 2. */
export function usageError(message: string, hint?: string): CliError {
  return new CliError(message, { code: 'usage', hint });
}

/** Creates the error for a file or directory that cannot be used, for example read or written. Its exit code is 1. */
export function fileError(action: string, path: string, cause: unknown, hint?: string): CliError {
  return new CliError(`cannot ${action} ${path}: ${systemReason(cause)}`, {
    code: 'file_error',
    hint,
    cause,
  });
}

/** Hints for errors of a store, by their codes. They name commands and options, which the store does not know. */
const STORE_HINTS: Partial<Record<StoreErrorCode, string>> = {
  in_use: 'use that server, stop it, or choose another directory with --data',
  changed:
    'find out which program did that; put the journal back, or restore a backup; then run pets store check <dir>, and start the server again, which creates a new store if the directory is missing',
  key_request: 'see: pets help keys add',
  privilege:
    'grant the missing privilege to the database user; or, to create the store, let an administrator run the output of: pets store migrate <url> --dry-run',
};

const STORE_CODES: Partial<Record<StoreErrorCode, CliErrorCode>> = {
  key_missing: 'not_found',
  key_request: 'usage',
};

/** Converts any error for printing. An error of an unexpected kind is a bug. */
export function toCliError(error: unknown): CliError {
  if (error instanceof CliError) return error;
  if (error instanceof InterruptedError)
    return new CliError('interrupted', { code: 'interrupted', cause: error });
  if (error instanceof StoreError) {
    const { code, message, hint } = error;
    const options = { code: STORE_CODES[code] ?? 'store_error', hint: STORE_HINTS[code] ?? hint };
    return new CliError(message, { ...options, cause: error });
  }
  if (errnoOf(error)?.endsWith('MODULE_NOT_FOUND')) {
    const message = 'a part of pets is missing, perhaps because of an update while it was running';
    const hint = 'run the command again; if that does not help, install pets again';
    return new CliError(message, { code: 'file_error', hint, cause: error });
  }
  if (error instanceof Error && 'syscall' in error) {
    const hint =
      'if the current directory was deleted, change to another one; if pets was updated meanwhile, start it again; otherwise, add --debug to see the call that failed';
    return new CliError(error.message, { code: 'file_error', hint, cause: error });
  }
  return new CliError(`unexpected error: ${error instanceof Error ? error.message : String(error)}`, {
    code: 'internal_error',
    hint: 'this is a bug; please report it with the output of the same command with --debug',
    cause: error,
  });
}
