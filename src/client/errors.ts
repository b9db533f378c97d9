type ErrorDetails = ErrorOptions & { hint?: string | undefined };

/**
 * A call that failed. Distinguish failures by subclass and fields, never by message. The message does not name the host.
 * The command that called knows the host, the profile and the proxy, and adds them.
 */
export abstract class ClientError extends Error {
  /** The code for scripts: that of the service's error response, or one of the client's own. */
  abstract readonly code: string;
  /** What to do, if the cause of the failure shows it. */
  readonly hint: string | undefined;

  constructor(message: string, { hint, ...options }: ErrorDetails = {}) {
    super(message, options);
    this.name = new.target.name;
    this.hint = hint;
  }
}

/** The service returned an error (docs/service.md 7). */
export class ApiFailure extends ClientError {
  readonly status: number;
  readonly code: string;
  /** Whether the body has a code of the API. Without one, another server may have responded. */
  readonly isFromService: boolean;

  constructor(status: number, message: string, code?: string) {
    super(message);
    this.status = status;
    this.code = code ?? `http_${status}`;
    this.isFromService = code !== undefined;
  }
}

type NetworkDetails = ErrorDetails & {
  sent: boolean;
  code?: NetworkError['code'];
  errno?: string | undefined;
  isPermanent?: boolean;
};

/** The request ended without a response, or in the middle of it. */
export class NetworkError extends ClientError {
  /**
   * `timeout` if the time limit of the attempt or of the command has passed. `local_error` if this machine is the cause:
   * too little memory, too many open files, or a bug.
   */
  readonly code: 'network_error' | 'timeout' | 'local_error';
  /** Whether the service may have received the request. */
  readonly sent: boolean;
  /** The error code of the system, of TLS or of undici, such as ECONNREFUSED. */
  readonly errno: string | undefined;
  /** Whether another attempt would fail in the same way, as after a certificate error. */
  readonly isPermanent: boolean;

  constructor(message: string, { sent, code, errno, isPermanent = false, ...details }: NetworkDetails) {
    super(message, details);
    this.code = code ?? 'network_error';
    this.sent = sent;
    this.errno = errno;
    this.isPermanent = isPermanent;
  }
}

/** The response is not one that the contract allows. `status` is undefined if it could not be read. */
export class ContractError extends ClientError {
  readonly code = 'contract_error';
  readonly status: number | undefined;

  constructor(status: number | undefined, message: string, details?: ErrorDetails) {
    super(message, details);
    this.status = status;
  }
}

/** The rate limit does not allow the call before `until`, in milliseconds since the epoch. */
export class RateLimitError extends ClientError {
  readonly code: string;
  readonly until: number;
  /** True if the last attempt got a 429. False if a pause that an earlier response started prevented an attempt. */
  readonly fromResponse: boolean;

  /** `response` is what the 429 says about itself. */
  constructor(until: number, response?: { code?: string | undefined; reason?: string | undefined }) {
    super(response ? (response.reason ?? 'rate limit exceeded') : 'the rate limit is used up');
    this.until = until;
    this.code = response?.code ?? 'rate_limited';
    this.fromResponse = response !== undefined;
  }
}

/**
 * A creation was sent, but no valid response shows whether it was applied. `cause` is the error of the last attempt.
 * A retry with the same `idempotencyKey` is safe if the service supports it.
 */
export class OutcomeUnknownError extends ClientError {
  readonly code = 'outcome_unknown';
  readonly idempotencyKey: string;
  readonly supportsIdempotency: boolean;

  constructor(cause: unknown, options: { idempotencyKey: string; supportsIdempotency: boolean }) {
    super('the outcome is unknown', { cause });
    this.idempotencyKey = options.idempotencyKey;
    this.supportsIdempotency = options.supportsIdempotency;
  }
}

/** Whether an error is about a response with a success status. Another attempt would get the same response. */
export const hasSuccessStatus = (error: unknown): boolean =>
  error instanceof ContractError && error.status !== undefined && error.status >= 200 && error.status <= 299;
