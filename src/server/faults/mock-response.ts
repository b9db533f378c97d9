import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { header } from '../../contract/headers.ts';
import { stringifyJson } from '../../contract/json.ts';
import { type OperationName, operations } from '../../contract/operations.ts';
import { petJson } from '../../contract/schemas.ts';
import type { RateLimitWindow } from '../../store/limits/limiter.ts';
import {
  invalidRequest,
  methodNotAllowed,
  ServiceError,
  tooManyRequests,
  unauthorized,
} from '../http-errors.ts';
import type { ServiceResponse } from '../response.ts';
import type { RouteMatch } from '../route-match.ts';
import { sampleData } from '../sample-data.ts';

// Preferences are separated by commas outside quotes; each may have parameters (RFC 7240).
const PREFERENCE = /(?:[^,"]|"(?:[^"\\]|\\.)*")+/g;
const CODE = /^\s*code\s*=\s*(?:"([^"]*)"|([^\s;"]*))\s*(?:;|$)/i;

/** The status in `Prefer: code=429` (docs/service.md 11); undefined if the header asks for none. */
export function preferredStatus(prefer: string): string | undefined {
  for (const preference of prefer.match(PREFERENCE) ?? []) {
    const match = CODE.exec(preference);
    if (match) return match[1] ?? match[2];
  }
  return undefined;
}

export type MockContext = Pick<RouteMatch, 'operation' | 'path' | 'allow'> & {
  window: RateLimitWindow;
  now: number;
};

/**
 * Returns an example of the operation's response with the status `code`, without running the operation.
 *
 * @throws ServiceError 400 if `code` is neither the success status of the operation nor a status of any error
 */
export function mockResponse(code: string, context: MockContext): ServiceResponse {
  const { status, headers, body } = buildMock(code, context);
  return { status, headers: { ...headers, [header.preferenceApplied]: `code=${code}` }, body };
}

function buildMock(code: string, { operation, path, allow, window, now }: MockContext): ServiceResponse {
  const { status } = operations[operation].success;
  if (code === String(status)) return { status, headers: {}, body: examples[operation]() };
  const names = Object.keys(errorCodes) as ErrorCode[];
  const name = names.find((each) => String(errorCodes[each]) === code);
  switch (name) {
    case undefined: {
      const possible = [status, ...new Set(Object.values(errorCodes))].join(', ');
      throw invalidRequest(`${header.prefer}: code=${code} is not supported. Use one of ${possible}`);
    }
    case 'unauthorized':
      return unauthorized();
    case 'method_not_allowed':
      return methodNotAllowed(path, allow);
    case 'rate_limited':
      return tooManyRequests({ window, now });
    default:
      return new ServiceError(name, `Mocked response (${header.prefer}: code=${code})`);
  }
}

const petTexts = () => sampleData().pets.map(petJson);

const examples: Record<OperationName, () => string> = {
  listPets: () => `[${petTexts().slice(0, 2).join(',')}]`,
  createPet: () => petTexts()[0] ?? '',
  getPet: () => petTexts()[0] ?? '',
  listOrders: () => stringifyJson(sampleData().orders.slice(0, 2)),
};
