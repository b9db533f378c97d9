import type { ApiError } from '../contract/schemas.ts';

/** A call that did not succeed. The subclasses are its kinds; nothing is told apart by its message. */
export abstract class ClientError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The service answered with an error (specification 7). */
export class ApiFailure extends ClientError {
  readonly status: number;
  /** The service's own code; undefined where the reply was not an Error body. */
  readonly code: string | undefined;

  constructor(status: number, error: ApiError | undefined) {
    super(error?.message ?? `the service answered ${status}`);
    this.status = status;
    this.code = error?.code;
  }
}

/** The connection failed. `sent` tells whether the service may have seen the request. */
export class NetworkError extends ClientError {
  readonly code: string | undefined;
  readonly sent: boolean;

  constructor(message: string, options: { code?: string | undefined; sent: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.code = options.code;
    this.sent = options.sent;
  }
}

/** No complete answer within the time of one attempt. */
export class TimeoutError extends ClientError {
  readonly milliseconds: number;
  readonly sent: boolean;

  constructor(milliseconds: number, options: { sent: boolean }) {
    super(`no answer within ${milliseconds / 1_000} s`);
    this.milliseconds = milliseconds;
    this.sent = options.sent;
  }
}

/** The reply is not one that the contract has. */
export class ContractError extends ClientError {
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** Refused by the rate limit, and the wait is longer than allowed. `until` is in milliseconds since the epoch. */
export class RateLimitError extends ClientError {
  readonly until: number;
  readonly code: string | undefined;

  constructor(until: number, error: ApiError | undefined) {
    super(error?.message ?? 'the rate limit is used up');
    this.until = until;
    this.code = error?.code;
  }
}

/**
 * A creation was sent, and its answer is lost, or is a failure of the service: it may have been carried out. `cause` is
 * what happened; with the same idempotency key it can be repeated where the service honours it.
 */
export class OutcomeUnknownError extends ClientError {
  readonly idempotencyKey: string;

  constructor(cause: unknown, idempotencyKey: string) {
    super('the outcome is unknown', { cause });
    this.idempotencyKey = idempotencyKey;
  }
}

/** Interrupted by the caller's signal. */
export class InterruptedError extends ClientError {}
