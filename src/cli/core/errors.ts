import { StoreError, type StoreErrorCode } from '../../store/errors.ts';
import { InterruptedError } from '../../system/interrupted-error.ts';
import { type CliErrorCode, cliErrorCodes, type ExitCode } from './exit-codes.ts';

/** What a script may need to know about an error, besides its code and its message. */
export type ErrorFields = {
  /** The HTTP status of the response. It is 429 or 503 if an earlier response prevented the request. */
  status?: number | undefined;
  /** When the rate limit allows the next request, in ISO 8601. */
  until?: string | undefined;
  /** Set if an animal may or may not have been added. */
  mayHaveBeenAdded?: true | undefined;
  /** Repeating the command with this key adds no second animal. Set only if the outcome is unknown. */
  idempotencyKey?: string | undefined;
};

/** One of the program's own codes, or the code of a response with the exit code that fits its status. */
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

  /** The same error with another hint, from a caller that knows a better next step. */
  withHint(hint: string): CliError {
    const { message, code, exitCode, fields, cause } = this;
    return new CliError(message, { ...fields, code, exitCode, hint, cause });
  }
}

/** Creates the error for wrong usage, such as an invalid argument, option or setting. Its exit code is 2. */
export function usageError(message: string, hint?: string): CliError {
  return new CliError(message, { code: 'usage', hint });
}

/** Creates the error for a file or directory that could not be read or written. Its exit code is 1. */
export function fileError(action: string, path: string, cause: unknown, hint?: string): CliError {
  return new CliError(`cannot ${action} ${path}: ${systemReason(cause)}`, {
    code: 'file_error',
    hint,
    cause,
  });
}

/** The hints for errors of a store that name commands and options. The store knows neither. */
const STORE_HINTS: Partial<Record<StoreErrorCode, string>> = {
  missing: 'check the directory or URL; to create a store there: pets serve --data <dir|url>',
  in_use: 'use that server, stop it, or choose another directory with --data',
  changed:
    'find out which program did that; put the journal back, or restore a backup; then run pets store check, and start the server again, which creates a new store if the directory is missing',
  key_request: 'see: pets help keys add',
  privilege:
    'grant the missing privilege to the database user; or, to create the store, let an administrator run the output of: pets store migrate --dry-run',
};

const STORE_CODES: Partial<Record<StoreErrorCode, CliErrorCode>> = {
  key_missing: 'not_found',
  key_request: 'usage',
};

/** Any error as it is printed. What nobody foresaw is a bug. */
export function toCliError(error: unknown): CliError {
  if (error instanceof CliError) return error;
  if (error instanceof InterruptedError)
    return new CliError('interrupted', { code: 'interrupted', cause: error });
  if (error instanceof StoreError) {
    const { code, message, hint } = error;
    const options = { code: STORE_CODES[code] ?? 'store_error', hint: STORE_HINTS[code] ?? hint };
    return new CliError(message, { ...options, cause: error });
  }
  return new CliError(`unexpected error: ${error instanceof Error ? error.message : String(error)}`, {
    code: 'internal_error',
    hint: 'this is a bug; please report it with the output of the same command with --debug',
    cause: error,
  });
}

/** What is wrong in words, and a next step that does not depend on the command. */
type Problem = { reason: string; hint?: string };

const UNKNOWN_ISSUER: Problem = {
  reason: 'its certificate is signed by an unknown authority',
  hint: 'if you trust that authority, set NODE_EXTRA_CA_CERTS to the file with its certificate',
};
const CLOCK = 'check the clock of this machine; if it is right, the service must replace its certificate';

/** The error codes of the operating system, of TLS and of undici. */
const PROBLEMS: Record<string, Problem> = {
  EACCES: { reason: 'permission denied' },
  EADDRINUSE: { reason: 'the address is already in use' },
  EADDRNOTAVAIL: { reason: 'this machine does not have this address' },
  EBUSY: { reason: 'it is in use, or it is a mount point' },
  EISDIR: { reason: 'it is a directory' },
  EAI_AGAIN: { reason: 'host name lookup failed' },
  ECONNREFUSED: { reason: 'connection refused' },
  ECONNRESET: { reason: 'connection closed' },
  EHOSTUNREACH: { reason: 'host unreachable' },
  ELOOP: { reason: 'too many symbolic links' },
  ENETUNREACH: { reason: 'network unreachable' },
  ENOENT: { reason: 'it does not exist' },
  ENOSPC: { reason: 'the disk is full' },
  ENOTDIR: { reason: 'part of the path is not a directory' },
  ENOTFOUND: { reason: 'host not found' },
  EPERM: { reason: 'operation not permitted' },
  EPIPE: { reason: 'connection closed' },
  EPROTO: { reason: 'it does not use https' },
  EROFS: { reason: 'the file system is read-only' },
  ETIMEDOUT: { reason: 'connection timed out' },
  CERT_HAS_EXPIRED: { reason: 'its certificate has expired', hint: CLOCK },
  CERT_NOT_YET_VALID: { reason: 'its certificate is not valid yet', hint: CLOCK },
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_ISSUER,
  ERR_TLS_CERT_ALTNAME_INVALID: { reason: 'its certificate is for another host name' },
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_ISSUER,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_ISSUER,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_ISSUER,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_ISSUER,
  UND_ERR_CONNECT_TIMEOUT: { reason: 'connection timed out' },
  UND_ERR_SOCKET: { reason: 'connection closed' },
};

/** Describes an error of the system or of the network. For an unknown code, the reason is the error's message. */
export function systemProblem(error: unknown): Problem {
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (code.startsWith('ERR_SSL_')) return opensslProblem(code);
  return PROBLEMS[code] ?? { reason: message || String(error) };
}

export const systemReason = (error: unknown): string => systemProblem(error).reason;

function opensslProblem(code: string): Problem {
  if (/PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|WRONG_SSL_VERSION/.test(code)) {
    const hint = 'the service, or a proxy in front of it, must support TLS 1.2 or newer';
    return { reason: 'it does not support any version of TLS that pets accepts', hint };
  }
  // Only a peer that uses TLS can send an alert.
  if (!code.includes('_ALERT_')) return { reason: 'it does not use https' };
  return {
    reason: 'it refused the TLS connection',
    hint: 'the service may require HTTP/2 or a client certificate, which pets does not support; use an address that does not require them, or a local proxy',
  };
}
