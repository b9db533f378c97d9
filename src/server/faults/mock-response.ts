import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { header } from '../../contract/headers.ts';
import { stringifyJson } from '../../contract/json.ts';
import { type OperationName, operations } from '../../contract/operations.ts';
import { petJson } from '../../contract/schemas.ts';
import type { RateLimitDecision } from '../../store/limits/limiter.ts';
import { invalidRequest, methodNotAllowed, ServiceError, tooManyRequests, unauthorized } from '../errors.ts';
import { type ServiceResponse, windowHeaders } from '../response.ts';
import { sampleData } from '../sample-data.ts';

/** A response that a `Prefer` header or a fault rule asks for, instead of running the operation. */
export type RequestedMock = {
  /** NaN if the text of a `Prefer` header is not a status. */
  status: number;
  /** The value of Retry-After, in seconds; NaN if the text of a `Prefer` header is not valid. */
  retryAfter?: number | undefined;
  /** What requested it; quoted in the message and in the log, such as `Prefer: code=503` or `your rule for POST /v1/pets`. */
  source: string;
  /** The value of Preference-Applied; undefined if a fault rule asks for the response. */
  applied?: string;
};

// Preferences are separated by commas outside quotes; each may have parameters (RFC 7240).
const PREFERENCE = /(?:[^,"]|"(?:[^"\\]|\\.)*")+/g;
const NAME_AND_VALUE = /^\s*([\w-]+)\s*=\s*(?:"([^"]*)"|([^\s;"]*))\s*(?:;|$)/;

/** Reads `Prefer: code=429, retry-after=1` (docs/testing.md); undefined if the header asks for no response. */
export function parsePrefer(prefer: string): RequestedMock | undefined {
  const values = new Map<string, string>();
  for (const preference of prefer.match(PREFERENCE) ?? []) {
    const [, name = '', quoted, token = ''] = NAME_AND_VALUE.exec(preference) ?? [];
    // If a preference is repeated, the first one counts (RFC 7240, 2).
    if (!values.has(name.toLowerCase())) values.set(name.toLowerCase(), quoted ?? token);
  }
  const code = values.get('code');
  if (code === undefined) return undefined;
  const wait = values.get('retry-after');
  const applied = wait === undefined ? `code=${code}` : `code=${code}, retry-after=${wait}`;
  return {
    status: toInteger(code),
    retryAfter: wait === undefined ? undefined : toInteger(wait),
    source: `${header.prefer}: ${applied}`,
    applied,
  };
}

const toInteger = (text: string): number => (/^[1-9]\d*$/.test(text) ? Number(text) : Number.NaN);

/** The longest Retry-After that can be requested, in seconds. */
export const MAX_RETRY_AFTER = 1_000_000;
/** The statuses for which a Retry-After can be requested. */
export const RETRYABLE_STATUSES: readonly number[] = [errorCodes.rate_limited, errorCodes.unavailable];

const errorStatuses: readonly number[] = [...new Set(Object.values(errorCodes))];
const successStatus = (operation: OperationName): number => operations[operation].success.status;

/** Every status for which `isPossibleStatus` is true for some operation. */
export const mockableStatuses: readonly number[] = [
  ...new Set([...Object.values(operations).map(({ success }) => success.status), ...errorStatuses]),
].sort((a, b) => a - b);

/** Whether the response of an operation with this status can be mocked. */
export const isPossibleStatus = (operation: OperationName, status: number): boolean =>
  status === successStatus(operation) || errorStatuses.includes(status);

/** `path` is the one that was requested, and `allow` lists its methods. */
export type MockContext = {
  operation: OperationName;
  path: string;
  allow: string;
  rateLimit: RateLimitDecision;
};

/**
 * Returns an example of the operation's response with a status, without running the operation.
 *
 * @throws ServiceError 400 if the operation has no response with this status, or if the Retry-After is not possible
 */
export function mockResponse(mock: RequestedMock, context: MockContext): ServiceResponse {
  checkMock(mock, context.operation);
  const { status, headers = [], body } = buildMock(mock, context);
  return {
    status,
    headers: [...headers, ...(mock.applied ? [header.preferenceApplied, mock.applied] : [])],
    body,
  };
}

function checkMock({ status, retryAfter, source }: RequestedMock, operation: OperationName): void {
  if (!isPossibleStatus(operation, status)) {
    const possible = [successStatus(operation), ...errorStatuses].join(', ');
    throw invalidRequest(`${source} is not supported. Use one of ${possible}`);
  }
  if (retryAfter === undefined) return;
  if (!(retryAfter <= MAX_RETRY_AFTER && RETRYABLE_STATUSES.includes(status))) {
    throw invalidRequest(
      `${source} is not supported. Use retry-after with 1 to ${MAX_RETRY_AFTER} seconds and code=${RETRYABLE_STATUSES.join(' or code=')}`,
    );
  }
}

function buildMock(
  { status, retryAfter, source }: RequestedMock,
  { operation, path, allow, rateLimit }: MockContext,
): ServiceResponse {
  const name = errorNames.find((each) => errorCodes[each] === status);
  switch (name) {
    case undefined:
      return {
        status,
        headers: operation === 'listPets' ? windowHeaders(rateLimit) : [],
        body: examples[operation](),
      };
    case 'unauthorized':
      return unauthorized(`Mocked response (${source})`);
    case 'method_not_allowed':
      return methodNotAllowed(path, allow);
    case 'rate_limited':
      return tooManyRequests(rateLimit);
    default:
      return new ServiceError(
        name,
        `Mocked response (${source})`,
        retryAfter === undefined ? [] : [header.retryAfter, String(retryAfter)],
      );
  }
}

const errorNames = Object.keys(errorCodes) as ErrorCode[];

const petTexts = () => sampleData().pets.map(petJson);

const examples: Record<OperationName, () => string> = {
  listPets: () => `[${petTexts().slice(0, 2).join(',')}]`,
  createPet: () => petTexts()[0] ?? '',
  getPet: () => petTexts()[0] ?? '',
  listOrders: () => stringifyJson(sampleData().orders.slice(0, 2)),
};
