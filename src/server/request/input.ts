import type { IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import {
  type Operation,
  type OperationInput,
  type OperationName,
  operations,
} from '../../contract/operations.ts';
import { ServiceError } from '../service-error.ts';
import { readJsonBody } from './body.ts';
import type { Query } from './target.ts';

/** What a request says, before anything is checked. */
export type Given = { params: Readonly<Record<string, string>>; query: Query; request: IncomingMessage };

/**
 * Reads what an operation takes, each part by the contract's schema; a parameter that it does not know is ignored.
 *
 * @throws ServiceError 404 for a path parameter that names nothing (design D5), 400 for anything else
 */
export async function readInput(
  name: OperationName,
  { params, query, request }: Given,
): Promise<OperationInput<OperationName>> {
  const operation: Operation = operations[name];
  const input: Record<string, unknown> = {};
  if (operation.params) {
    const result = z.safeParse(operation.params, params);
    if (!result.success) throw new ServiceError('not_found', `There is nothing with this identifier`);
    input['params'] = result.data;
  }
  if (operation.query) {
    const given: Record<string, string | undefined> = {};
    for (const field in operation.query.shape) given[field] = query.get(field);
    input['query'] = check(operation.query, given);
  }
  if (operation.body) input['body'] = check(operation.body, await readJsonBody(request));
  return input as OperationInput<OperationName>;
}

function check<Schema extends z.ZodMiniType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = z.safeParse(schema, value);
  if (!result.success) throw new ServiceError('invalid_request', describeIssues(result.error));
  return result.data;
}
