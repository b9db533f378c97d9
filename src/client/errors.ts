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
  /** Whether the service has just said so. If not, nothing was sent: an earlier answer, perhaps to another process, has. */
  readonly isAnswer: boolean;

  constructor(until: number, answer?: { error: ApiError | undefined }) {
    super(answer?.error?.message ?? 'the rate limit is used up');
    this.until = until;
    this.code = answer?.error?.code;
    this.isAnswer = answer !== undefined;
  }
}

/**
 * A creation was sent, and its answer is lost, or is a failure of the service: it may have been carried out. `cause` is
 * what happened. `honoured` tells whether the service has shown that it honours the idempotency key: there it can be
 * repeated with the same one.
 */
export class OutcomeUnknownError extends ClientError {
  readonly idempotencyKey: string;
  readonly honoured: boolean;

  constructor(cause: unknown, { idempotencyKey, honoured }: { idempotencyKey: string; honoured: boolean }) {
    super('the outcome is unknown', { cause });
    this.idempotencyKey = idempotencyKey;
    this.honoured = honoured;
  }
}

/** Interrupted by the caller's signal. `sent` tells whether the service may have seen the request. */
export class InterruptedError extends ClientError {
  readonly sent: boolean;

  constructor({ sent = false } = {}) {
    super('interrupted');
    this.sent = sent;
  }
}

/** The connection stood, and the request was held back: nothing was sent. */
export class HeldBackError extends ClientError {}
