import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts';
import { header } from '../../contract/headers.ts';
import { stringifyJson } from '../../contract/json.ts';
import { type OperationName, operations } from '../../contract/operations.ts';
import { petJson } from '../../contract/schemas.ts';
import type { Answer } from '../handlers.ts';
import type { Window } from '../limits/limiter.ts';
import { methodNotAllowed, overLimit, unauthorized } from '../refusals.ts';
import { sampleShop } from '../sample.ts';
import { ServiceError } from '../service-error.ts';

// Preferences stand between commas, those in quotes not counted; behind each may be parameters (RFC 7240).
const PREFERENCE = /(?:[^,"]|"(?:[^"\\]|\\.)*")+/g;
const CODE = /^\s*code\s*=\s*(?:"([^"]*)"|([^\s;"]*))\s*(?:;|$)/i;

/** The status that a request asks for with `Prefer: code=429`; undefined where it asks for none. */
export function preferredCode(prefer: string | string[] | undefined): string | undefined {
  if (prefer === undefined) return undefined;
  for (const preference of String(prefer).match(PREFERENCE) ?? []) {
    const match = CODE.exec(preference);
    if (match) return match[1] ?? match[2];
  }
  return undefined;
}

/** What an answer that was asked for is made of. */
export type Scene = { operation: OperationName; path: string; allow: string; window: Window; now: number };

/**
 * The answer of the contract with that status, made up: nothing is counted and nothing is written.
 *
 * @throws ServiceError 400 for a status that no answer of the operation has
 */
export function preferredAnswer(code: string, scene: Scene): Answer {
  const { status, headers, body } = makeUp(code, scene);
  return { status, headers: { ...headers, [header.preferenceApplied]: `code=${code}` }, body };
}

function makeUp(code: string, { operation, path, allow, window, now }: Scene): Answer {
  const { status } = operations[operation].success;
  if (code === String(status)) return { status, headers: {}, body: examples[operation]() };
  const names = Object.keys(errorCodes) as ErrorCode[];
  const name = names.find((each) => String(errorCodes[each]) === code);
  switch (name) {
    case undefined: {
      const possible = [status, ...new Set(Object.values(errorCodes))].join(', ');
      throw new ServiceError('invalid_request', `${header.prefer}: code=${code} is none of ${possible}`);
    }
    case 'unauthorized':
      return unauthorized();
    case 'method_not_allowed':
      return methodNotAllowed(path, allow);
    case 'rate_limited':
      return overLimit({ window }, now);
    default:
      return new ServiceError(name, `This answer was asked for with ${header.prefer}: code=${code}`);
  }
}

const pets = () => sampleShop().pets.map(petJson);

const examples: Record<OperationName, () => string> = {
  listPets: () => `[${pets().slice(0, 2).join(',')}]`,
  createPet: () => pets()[0] ?? '',
  getPet: () => pets()[0] ?? '',
  listOrders: () => stringifyJson(sampleShop().orders.slice(0, 2)),
};
