/** A call that failed. Distinguish failures by subclass, never by message. */
export abstract class ClientError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The service returned an error (docs/service.md 7), or the request was not sent because of an earlier 503. */
export class ApiFailure extends ClientError {
  readonly status: number;
  /** The error code in the response; undefined if the body is not an `ErrorBody`. */
  readonly code: string | undefined;
  /** The explanation in the body of the response; undefined if the body has no text. */
  readonly reason: string | undefined;

  constructor(status: number, message: string, { code, reason }: Refusal = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.reason = reason;
  }
}

/** The service no longer has the operation (docs/service.md, D12). */
export class RemovedError extends ApiFailure {}

type Refusal = { code?: string | undefined; reason?: string | undefined };

/** The request ended without a response. `sent` is true if the service may have received the request. */
export abstract class NoResponseError extends ClientError {
  readonly sent: boolean;

  constructor(message: string, options: ErrorOptions & { sent: boolean }) {
    super(message, options);
    this.sent = options.sent;
  }
}

/** The connection failed, possibly in the middle of the response. */
export class NetworkError extends NoResponseError {
  readonly code: string | undefined;

  constructor(message: string, options: { code?: string | undefined; sent: boolean; cause?: unknown }) {
    super(message, options);
    this.code = options.code;
  }
}

/** The response is not valid HTTP/1.1. */
export class ProtocolError extends NetworkError {
  /** The bytes that are not valid; empty if they are not known. */
  readonly received: string;

  constructor(cause: Error & { data?: string }) {
    super(cause.message, { sent: true, cause });
    this.received = cause.data ?? '';
  }
}

/** A proxy could not be reached, or refused the request. The service did not receive the request. */
export class ProxyError extends NetworkError {
  /** The HTTP status with which the proxy refused the request; undefined if the proxy did not respond. */
  readonly status: number | undefined;

  constructor({ status, cause }: { status?: number; cause?: Error }) {
    const code = errorCodeOf(cause);
    super(
      status === undefined
        ? `the proxy: ${cause?.message}`
        : `the proxy responded with HTTP status ${status}`,
      // If the code stayed UND_ERR_SOCKET, undici would connect to the proxy again and again.
      { code: code === 'UND_ERR_SOCKET' ? 'ECONNRESET' : code, sent: false, cause },
    );
    this.status = status;
  }
}

export class TimeoutError extends NoResponseError {
  constructor(milliseconds: number, { sent }: { sent: boolean }) {
    super(`no response within ${milliseconds / 1_000} s`, { sent });
  }
}

/** The response is not one that the contract allows. */
export class ContractError extends ClientError {
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** The response is a redirect. Redirects are not followed, because the key must not be sent to another server. */
export class RedirectError extends ContractError {
  /** The target, as the service wrote it. */
  readonly location: string | undefined;

  constructor(status: number, location: string | undefined) {
    super(status, `redirect${location ? ` to ${location}` : ''} was not followed (${status})`);
    this.location = location;
  }
}

/** The rate limit does not allow the call before `until`, in milliseconds since the epoch. */
export class RateLimitError extends ClientError {
  readonly until: number;
  readonly code: string | undefined;
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
    this.code = response?.code;
    this.fromResponse = response !== undefined;
  }
}

/**
 * A creation was sent, but no valid response shows whether it was applied. `cause` is the error of the last attempt.
 * A retry with the same `idempotencyKey` is safe if `supportsIdempotency` is true.
 */
export class OutcomeUnknownError extends ClientError {
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
  error instanceof ContractError && error.status >= 200 && error.status <= 299;

/** The attempt had a connection but sent nothing, because `Attempt.canSend` returned false. */
export class DeferredError extends ClientError {}

/** The code of an error, or of an error inside it. An AggregateError contains one error per address tried. */
export function errorCodeOf(error: unknown): string | undefined {
  const { code, errors, cause } = Object(error) as { code?: unknown; errors?: unknown[]; cause?: unknown };
  if (typeof code === 'string') return code;
  return [...(errors ?? []), ...(cause ? [cause] : [])].map(errorCodeOf).find((inner) => inner !== undefined);
}
