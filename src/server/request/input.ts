import type { IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import {
  type Operation,
  type OperationInput,
  type OperationName,
  operations,
} from '../../contract/operations.ts';
import type { Awaitable } from '../awaitable.ts';
import { ServiceError } from '../service-error.ts';
import { readJsonBody } from './body.ts';
import { parseQuery } from './target.ts';

/** What a request says, before anything of it is checked; `params` are those of its path. */
type Given = { target: string; params: Readonly<Record<string, string>>; request: IncomingMessage };

/**
 * Reads what an operation takes, each part by the contract's schema; a parameter that it does not know is ignored. Only
 * a body has to be waited for.
 *
 * @throws ServiceError 404 for a path parameter that names nothing (design D5), 400, 413 or 415 for anything else
 */
export function readInput(
  name: OperationName,
  { target, params, request }: Given,
): Awaitable<OperationInput<OperationName>> {
  const operation: Operation = operations[name];
  const query = parseQuery(target);
  const input: Record<string, unknown> = {};
  if (operation.params) {
    const result = z.safeParse(operation.params, params);
    if (!result.success) throw new ServiceError('not_found', `There is nothing with this identifier`);
    input['params'] = result.data;
  }
  if (operation.query) input['query'] = check(operation.query, Object.fromEntries(query));
  const { body } = operation;
  if (body === undefined) return input as OperationInput<OperationName>;
  return readJsonBody(request).then((value) => {
    input['body'] = check(body, value);
    return input as OperationInput<OperationName>;
  });
}

function check<Schema extends z.ZodMiniType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = z.safeParse(schema, value);
  if (!result.success) throw new ServiceError('invalid_request', describeIssues(result.error));
  return result.data;
}
