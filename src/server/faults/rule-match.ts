import type { OperationName } from '../../contract/operations.ts';
import { decodeSegments } from '../request/input.ts';
import { matchSegments, operationEntries, type Params, segmentsOf } from '../routes.ts';
import { isPossibleStatus } from './mock-response.ts';

type Match = {
  method?: string | undefined;
  /** A path under the API prefix. A segment such as `{petId}` means every value. */
  path?: string | undefined;
};

/** What a rule sees of a request: its operation and the path parameters. */
export type FaultRequest = { operation: OperationName; params: Params };

/** The operations that a rule can match, each with the path parameters that the rule requires. */
export function matchedOperations({ method, path }: Match): Map<OperationName, Params> {
  const matched = new Map<OperationName, Params>();
  for (const entry of operationEntries) {
    if (method !== undefined && entry.method !== (method === 'HEAD' ? 'GET' : method)) continue;
    const params = path === undefined ? {} : paramsAt(path, entry.path);
    if (params) matched.set(entry.name, params);
  }
  return matched;
}

/** The path parameters in a path; undefined if it is not a path of the template. */
function paramsAt(path: string, template: string): Params | undefined {
  try {
    return matchSegments(segmentsOf(template), decodeSegments(path));
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
