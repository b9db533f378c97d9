import type { IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import {
  type Operation,
  type OperationInput,
  type OperationName,
  operations,
} from '../../contract/operations.ts';
import { invalidRequest, ServiceError } from '../http-errors.ts';
import type { RouteMatch } from '../route-match.ts';
import { readJsonBody } from './body.ts';
import { parseQuery } from './target.ts';

/**
 * Reads and validates the path parameters, query and body of a request with the schemas of its operation.
 *
 * @throws ServiceError 404 for an invalid path parameter (D5), otherwise 400, 413 or 415
 */
export async function readOperationInput(
  { operation: name, params }: RouteMatch,
  request: IncomingMessage,
): Promise<OperationInput<OperationName>> {
  const operation: Operation = operations[name];
  const input: { params?: unknown; query?: unknown; body?: unknown } = {};
  const query = parseQuery(request.url ?? '');
  if (operation.params) {
    const { success, data } = z.safeParse(operation.params, params);
    if (!success) throw new ServiceError('not_found', 'Not found: the identifier in the path is not valid');
    input.params = data;
  }
  if (operation.query) input.query = validate(operation.query, query, 'The query');
  if (operation.body) input.body = validate(operation.body, await readJsonBody(request), 'The body');
  return input as OperationInput<OperationName>;
}

/** `whole` is the name of the value in error messages. @throws ServiceError 400 */
function validate(schema: z.ZodMiniType, value: unknown, whole: string): unknown {
  const { success, data, error } = z.safeParse(schema, value);
  if (!success) throw invalidRequest(describeIssues(error, whole));
  return data;
}
