import type { ErrorBody } from '../contract/schemas.ts';

/** A call that failed. Distinguish failures by subclass, never by message. */
export abstract class ClientError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The service returned an error (docs/service.md 7). */
export class ApiFailure extends ClientError {
  readonly status: number;
  /** The error code in the response; undefined if its body is not an `ErrorBody`. */
  readonly code: string | undefined;

  constructor(status: number, error: ErrorBody | undefined) {
    super(error?.message ?? `HTTP status ${status}`);
    this.status = status;
    this.code = error?.code;
  }
}

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

/** An attempt took longer than its timeout. */
export class TimeoutError extends NoResponseError {
  constructor(milliseconds: number, { sent }: { sent: boolean }) {
    super(`no response within ${milliseconds / 1_000} s`, { sent });
  }
}

/** The caller's signal or `Client.close` interrupted the call. */
export class InterruptedError extends NoResponseError {
  constructor({ sent = false } = {}) {
    super('interrupted', { sent });
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

const NOT_SENT = 'an earlier response reported the rate limit, so the request was not sent';

/** The rate limit does not allow the call before `until`, in milliseconds since the epoch. */
export class RateLimitError extends ClientError {
  readonly until: number;
  readonly code: string | undefined;
  /** True if the last attempt got a 429. False if a cool-down that an earlier response started prevented an attempt. */
  readonly fromResponse: boolean;

  constructor(until: number, response?: { error: ErrorBody | undefined }) {
    super(response ? (response.error?.message ?? 'rate limit exceeded') : NOT_SENT);
    this.until = until;
    this.code = response?.error?.code;
    this.fromResponse = response !== undefined;
  }
}

/**
 * A creation was sent, but no response confirms or excludes that it was applied. `cause` is the error of the last
 * attempt. A retry with the same `idempotencyKey` is safe if `supportsIdempotency` is true.
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

/** The attempt had a connection but sent nothing, because `Attempt.canSend` returned false. */
export class DeferredError extends ClientError {}
