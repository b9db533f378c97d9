import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import { invalidRequest } from '../http-errors.ts';
import { parseQuery } from '../request/target.ts';

/** A query parameter that is an integer of at most nine digits. */
export const queryInteger = (min: number, max: number) =>
  z.pipe(
    z.string().check(
      z.refine((text) => /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max, {
        error: `must be an integer from ${min} to ${max}`,
      }),
    ),
    z.transform(Number),
  );

/** Reads and validates the query of a request target. @throws ServiceError 400 */
export function readQuery<Schema extends z.ZodMiniObject>(schema: Schema, target = ''): z.output<Schema> {
  const { success, data, error } = z.safeParse(schema, { ...parseQuery(target) });
  if (!success) throw invalidRequest(describeIssues(error, 'The query'));
  return data;
}
