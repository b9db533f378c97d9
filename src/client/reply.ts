import * as z from 'zod/mini';
import { describeIssues } from '../contract/issues.ts';
import { parseJson } from '../contract/json.ts';
import type { Operation } from '../contract/operations.ts';
import { ApiError } from '../contract/schemas.ts';
import type { Reply } from './attempt.ts';
import { ApiFailure, ClientError, ContractError, RateLimitError } from './errors.ts';
import { readHeader } from './headers.ts';

/** What a successful reply holds. @throws ContractError */
export function readValue(operation: Operation, reply: Reply): unknown {
  const result = z.safeParse(operation.success.body, readJson(reply));
  if (!result.success) {
    throw new ContractError(
      reply.status,
      `the reply is outside the contract: ${describeIssues(result.error)}`,
    );
  }
  return result.data;
}

function readJson(reply: Reply): unknown {
  try {
    return parseJson(reply.body);
  } catch (cause) {
    throw new ContractError(reply.status, `the reply is not JSON${otherType(reply)}`, { cause });
  }
}

/** The error that a reply is. `until` is when a refused one may be tried again, in milliseconds since the epoch. */
export function failureOf(reply: Reply, until: number): ClientError {
  const error = readError(reply);
  if (reply.status === 429) return new RateLimitError(until, { error });
  if (isRedirect(reply)) {
    const where = readHeader(reply.headers, 'Location');
    const to = where === undefined ? '' : ` to ${where}`;
    return new ContractError(
      reply.status,
      `the service redirects${to}, which is not followed (${reply.status})`,
    );
  }
  const speaksForItself = reply.status >= 500 || reply.status === 401 || reply.status === 403;
  if (error !== undefined || speaksForItself) return new ApiFailure(reply.status, error);
  return new ContractError(
    reply.status,
    `the service answered ${reply.status} without an Error body${otherType(reply)}`,
  );
}

/** The Error body of a reply; undefined where it has none. */
export function readError(reply: Reply): ApiError | undefined {
  try {
    const result = z.safeParse(ApiError, readJson(reply));
    return result.success ? result.data : undefined;
  } catch (error) {
    if (error instanceof ClientError) return undefined;
    throw error;
  }
}

/** What the reply says it is, where that is not JSON. */
function otherType(reply: Reply): string {
  const type = readHeader(reply.headers, 'Content-Type')?.split(';')[0]?.trim();
  return type === undefined || type === 'application/json' ? '' : ` but ${type}`;
}

const isRedirect = ({ status }: Reply): boolean => [301, 302, 303, 307, 308].includes(status);
