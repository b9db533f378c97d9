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

/** What an error response says about itself; `code` is undefined if the body is not an `ErrorBody`. */
type Refusal = { code?: string | undefined; reason?: string | undefined };

/** The service returned an error (docs/service.md 7), or the request was not sent because of an earlier 503. */
export class ApiFailure extends ClientError {
  readonly status: number;
  readonly code: string;
  /** Whether the body has a code of the API. Without one, another server may have responded. */
  readonly isFromService: boolean;
  /** The explanation in the body of the response; undefined if the body has no text. */
  readonly reason: string | undefined;

  constructor(status: number, message: string, { code, reason, ...details }: Refusal & ErrorDetails = {}) {
    super(message, details);
    this.status = status;
    this.code = code ?? `http_${status}`;
    this.isFromService = code !== undefined;
    this.reason = reason;
  }
}

/** The service no longer has the operation (docs/service.md, D12). */
export class RemovedError extends ApiFailure {}

/** The request ended without a response. `sent` is true if the service may have received the request. */
export abstract class NoResponseError extends ClientError {
  readonly sent: boolean;

  constructor(message: string, { sent, ...details }: ErrorDetails & { sent: boolean }) {
    super(message, details);
    this.sent = sent;
  }
}

type NetworkDetails = ErrorDetails & {
  sent: boolean;
  errno?: string | undefined;
  isPermanent?: boolean | undefined;
};

/** The connection failed, possibly in the middle of the response. */
export class NetworkError extends NoResponseError {
  readonly code = 'network_error';
  /** The error code of the system, of TLS or of undici, such as ECONNREFUSED. */
  readonly errno: string | undefined;
  /** Whether another attempt would fail in the same way, as after a certificate error. */
  readonly isPermanent: boolean;

  constructor(message: string, { errno, isPermanent = false, ...details }: NetworkDetails) {
    super(message, details);
    this.errno = errno;
    this.isPermanent = isPermanent;
  }
}

/** A proxy could not be reached, or refused the request. The service did not receive the request. */
export class ProxyError extends NetworkError {
  /** The HTTP status with which the proxy refused the request; undefined if the proxy did not respond. */
  readonly status: number | undefined;

  constructor(message: string, { status, ...details }: Omit<NetworkDetails, 'sent'> & { status?: number }) {
    super(message, { ...details, sent: false });
    this.status = status;
  }
}

/** A time limit: that of one attempt, or the rest of the limit of a command, which the error shows in full. */
export type TimeLimit = { milliseconds: number; shown: number; limit: 'attempt' | 'command' };

export class TimeoutError extends NoResponseError {
  readonly code = 'timeout';
  readonly limit: TimeLimit['limit'];

  constructor({ shown, limit }: Omit<TimeLimit, 'milliseconds'>, { sent }: { sent: boolean }) {
    super(`${limit === 'attempt' ? 'no response' : 'not done'} within ${shown / 1_000} s`, { sent });
    this.limit = limit;
  }
}

/** This machine prevented the request: too little memory, too many open files, or a bug. The network is not the cause. */
export class LocalError extends NoResponseError {
  readonly code = 'local_error';
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
  /** With a `maxWait` of this many milliseconds, the call would have waited; undefined if it would have failed anyway. */
  readonly neededMaxWait: number | undefined;

  constructor(
    until: number,
    { response, neededMaxWait }: { response?: Refusal; neededMaxWait?: number | undefined } = {},
  ) {
    super(response ? (response.reason ?? 'rate limit exceeded') : 'the rate limit is used up');
    this.until = until;
    this.neededMaxWait = neededMaxWait;
    this.code = response?.code ?? 'rate_limited';
    this.fromResponse = response !== undefined;
  }
}

/**
 * A creation was sent, but no valid response shows whether it was applied. `cause` is the error of the last attempt.
 * A retry with the same `idempotencyKey` is safe if `canRepeat` is true.
 */
export class OutcomeUnknownError extends ClientError {
  readonly code = 'outcome_unknown';
  readonly idempotencyKey: string;
  readonly supportsIdempotency: boolean;
  /** Whether the service supports the key, and has not responded with success: it would send that response again. */
  readonly canRepeat: boolean;

  constructor(cause: unknown, options: { idempotencyKey: string; supportsIdempotency: boolean }) {
    super('the outcome is unknown', { cause });
    this.idempotencyKey = options.idempotencyKey;
    this.supportsIdempotency = options.supportsIdempotency;
    this.canRepeat = options.supportsIdempotency && !hasSuccessStatus(cause);
  }
}

/** Whether an error is about a response with a success status. Another attempt would get the same response. */
export const hasSuccessStatus = (error: unknown): boolean =>
  error instanceof ContractError && error.status !== undefined && error.status >= 200 && error.status <= 299;

/** The attempt had a connection but sent nothing, because `Attempt.canSend` returned false. */
export class DeferredError extends ClientError {
  readonly code = 'deferred';
}
