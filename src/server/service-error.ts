import { type ErrorCode, errorCodes } from '../contract/error-codes.ts';

/** An answer that is an error: it becomes the Error body of the specification (2.5). */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }

  get status(): number {
    return errorCodes[this.code];
  }

  get body(): string {
    return JSON.stringify({ code: this.code, message: this.message, status: this.status });
  }
}
