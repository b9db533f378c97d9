/** The service's error codes and the HTTP status of each (docs/service.md, D11). */
export const errorCodes = {
  invalid_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  idempotency_in_flight: 409,
  operation_removed: 410,
  payload_too_large: 413,
  unsupported_media_type: 415,
  expectation_failed: 417,
  misdirected_request: 421,
  idempotency_mismatch: 422,
  rate_limited: 429,
  key_banned: 429,
  headers_too_large: 431,
  internal_error: 500,
  injected_fault: 503,
  storage_full: 503,
  storage_failed: 503,
  storage_unreachable: 503,
  unavailable: 503,
  starting: 503,
} as const;

export type ErrorCode = keyof typeof errorCodes;
export type ErrorStatus = (typeof errorCodes)[ErrorCode];

const notCarriedOutCodes: readonly ErrorCode[] = ['storage_full', 'storage_unreachable', 'starting'];

/** Whether an error response reports that the request was certainly not carried out (docs/service.md, D11). */
export const isNotCarriedOut = ({ status, code }: { status: number; code?: string | undefined }): boolean =>
  status === 503 && notCarriedOutCodes.some((each) => each === code);
