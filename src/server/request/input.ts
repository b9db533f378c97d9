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

/** What a request says, before anything of it is checked. */
export type Given = { params: Readonly<Record<string, string>>; query: Query; request: IncomingMessage };

/**
 * Reads what an operation takes, each part by the contract's schema; a parameter that it does not know is ignored. Only
 * a body has to be waited for.
 *
 * @throws ServiceError 404 for a path parameter that names nothing (design D5), 400, 413 or 415 for anything else
 */
export function readInput(
  name: OperationName,
  given: Given,
): OperationInput<OperationName> | Promise<OperationInput<OperationName>> {
  const operation: Operation = operations[name];
  const input: Record<string, unknown> = {};
  if (operation.params) {
    const result = z.safeParse(operation.params, given.params);
    if (!result.success) throw new ServiceError('not_found', `There is nothing with this identifier`);
    input['params'] = result.data;
  }
  if (operation.query) input['query'] = check(operation.query, Object.fromEntries(given.query));
  const whole = input as OperationInput<OperationName>;
  return operation.body === undefined ? whole : addBody(whole, operation.body, given.request);
}

async function addBody<Input>(input: Input, schema: z.ZodMiniType, request: IncomingMessage): Promise<Input> {
  return { ...input, body: check(schema, await readJsonBody(request)) };
}

function check<Schema extends z.ZodMiniType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = z.safeParse(schema, value);
  if (!result.success) throw new ServiceError('invalid_request', describeIssues(result.error));
  return result.data;
}
