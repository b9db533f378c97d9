import { type OperationName, operations } from '../../contract/operations.ts';
import { findOperations, type Params } from '../routes.ts';
import { isPossibleStatus } from './mock-response.ts';

type Match = {
  method?: string | undefined;
  /** A path under the API prefix. A segment such as `{petId}` means every value. */
  path?: string | undefined;
};

/** What a rule sees of a request: its operation and the path parameters. */
export type FaultRequest = { operation: OperationName; params: Params };

const names = Object.keys(operations) as OperationName[];

/** The operations that a rule can match, each with the path parameters that the rule requires. */
export function matchedOperations({ method, path }: Match): Map<OperationName, Params> {
  const matched = new Map<OperationName, Params>();
  for (const name of names) {
    const operation = operations[name];
    if (method !== undefined && operation.method !== (method === 'HEAD' ? 'GET' : method)) continue;
    const params = path === undefined ? {} : paramsAt(path, name);
    if (params) matched.set(name, params);
  }
  return matched;
}

/** The path parameters of an operation in a path; undefined if it is not a path of the operation. */
function paramsAt(path: string, name: OperationName): Params | undefined {
  try {
    const found = findOperations(path);
    return found?.methods.get(operations[name].method)?.name === name ? found.params : undefined;
  } catch {
    // Malformed percent-encoding belongs to no operation.
    return undefined;
  }
}

/**
 * Returns a function that decides whether a rule applies to a request. A rule whose answer is the success status of some
 * operations applies only to these operations.
 */
export function createRuleMatcher({
  match = {},
  answer,
}: {
  match?: Match | undefined;
  answer?: number | undefined;
}): (method: string, request: FaultRequest) => boolean {
  const matched = matchedOperations(match);
  return (method, { operation, params }) => {
    const required = matched.get(operation);
    if (required === undefined || (match.method !== undefined && match.method !== method)) return false;
    if (answer !== undefined && !isPossibleStatus(operation, answer)) return false;
    return Object.entries(required).every(([name, value]) => value.startsWith('{') || value === params[name]);
  };
}
