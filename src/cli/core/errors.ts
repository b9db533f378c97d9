import type { CliErrorCode } from './exit-codes.ts';

/** An error that the user can fix. `hint` is the next step, usually a command. */
export class CliError extends Error {
  readonly code: CliErrorCode;
  readonly hint: string | undefined;
  /** Set if an animal may or may not have been added. */
  readonly mayHaveBeenAdded: true | undefined;

  constructor(
    message: string,
    options: { code: CliErrorCode; hint?: string | undefined; mayHaveBeenAdded?: true; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.code = options.code;
    this.hint = options.hint;
    this.mayHaveBeenAdded = options.mayHaveBeenAdded;
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

/** The text for several TLS error codes. Errors with this text get a hint of their own. */
export const UNKNOWN_ISSUER = 'its certificate is signed by an unknown authority';

/** The texts for error codes of OpenSSL. Some hints depend on these texts. */
export const NOT_HTTPS = 'it does not use https';
export const OTHER_TLS_VERSION = 'it does not support any version of TLS that pets accepts';
export const TLS_REFUSED = 'it refused the TLS connection';
export const ONLY_HTTP2 = 'it supports only HTTP/2';

/** Descriptions of the error codes of the operating system, of TLS and of undici. */
const REASONS: Record<string, string> = {
  EACCES: 'permission denied',
  EADDRINUSE: 'the address is already in use',
  EADDRNOTAVAIL: 'this machine does not have this address',
  EBUSY: 'it is in use, or it is a mount point',
  EISDIR: 'it is a directory',
  EAI_AGAIN: 'host name lookup failed',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed',
  EHOSTUNREACH: 'host unreachable',
  ELOOP: 'too many symbolic links',
  ENETUNREACH: 'network unreachable',
  ENOENT: 'it does not exist',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'part of the path is not a directory',
  ENOTFOUND: 'host not found',
  EPERM: 'operation not permitted',
  EPIPE: 'connection closed',
  EPROTO: NOT_HTTPS,
  EROFS: 'the file system is read-only',
  ETIMEDOUT: 'connection timed out',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_ISSUER,
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host name',
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_ISSUER,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_ISSUER,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_ISSUER,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_ISSUER,
  UND_ERR_CONNECT_TIMEOUT: 'connection timed out',
  UND_ERR_SOCKET: 'connection closed',
};

/** Describes an error of the system or of the network in words. For an unknown code, returns the error's message. */
export function systemReason(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException;
  return REASONS[code] ?? opensslReason(code) ?? (message || String(error));
}

function opensslReason(code: string): string | undefined {
  if (!code.startsWith('ERR_SSL_')) return undefined;
  if (/PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|WRONG_SSL_VERSION/.test(code)) return OTHER_TLS_VERSION;
  if (code.includes('NO_APPLICATION_PROTOCOL')) return ONLY_HTTP2;
  // Only a peer that uses TLS can send an alert.
  return code.includes('_ALERT_') ? TLS_REFUSED : NOT_HTTPS;
}
