import type { IncomingMessage } from 'node:http';
import type { OperationName } from '../contract/operations.ts';
import { methodNotAllowed, nothingAt } from './refusals.ts';
import { pathOf } from './request/target.ts';
import { deprecationHeaders } from './response-headers.ts';
import { allowedMethods, findResource, type Resource } from './router.ts';
import { ServiceError } from './service-error.ts';

/** What a request is for. `target` is all that was asked for, as it was sent; the `path` of it is known to be right. */
export type Errand = { operation: OperationName; target: string; path: string; resource: Resource };

/**
 * What a request is for, or the 400, 404 or 405 that it gets once its caller is known. What every answer of the operation
 * says is added to `headers`.
 */
export function findErrand(request: IncomingMessage, headers: Record<string, string>): Errand | ServiceError {
  try {
    const target = request.url ?? '';
    const path = pathOf(target);
    const resource = findResource(path);
    if (resource === undefined) return nothingAt(path);
    const operation = resource.operations.get(methodOf(request));
    if (operation === undefined) return methodNotAllowed(path, allowedMethods(resource));
    Object.assign(headers, deprecationHeaders(operation));
    return { operation, target, path, resource };
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

/** HEAD is asked and answered as GET (design D15). */
export const methodOf = (request: IncomingMessage): string =>
  request.method === 'HEAD' ? 'GET' : (request.method ?? '');
