import type { IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import {
  type Operation,
  type OperationInput,
  type OperationName,
  operations,
} from '../../contract/operations.ts';
import type { Route } from '../router.ts';
import { ServiceError } from '../service-error.ts';
import { readJsonBody } from './body.ts';

/**
 * Reads what an operation takes, each part by the contract's schema.
 *
 * @throws ServiceError 404 for a path parameter that names nothing (design D5), 400 for anything else
 */
export async function readInput(
  route: Route,
  query: Readonly<Record<string, string>>,
  request: IncomingMessage,
): Promise<OperationInput<OperationName>> {
  const operation: Operation = operations[route.operation];
  const input: Record<string, unknown> = {};
  if (operation.params) {
    const params = z.safeParse(operation.params, route.params);
    if (!params.success) throw new ServiceError('not_found', `There is nothing with this identifier`);
    input['params'] = params.data;
  }
  if (operation.query) input['query'] = check(operation.query, { ...query });
  if (operation.body) input['body'] = check(operation.body, await readJsonBody(request));
  return input as OperationInput<OperationName>;
}

function check<Schema extends z.ZodMiniType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = z.safeParse(schema, value);
  if (!result.success) throw new ServiceError('invalid_request', describeIssues(result.error));
  return result.data;
}
