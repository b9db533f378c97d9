import type * as z from 'zod/mini';

/** A schema option that sets the message for an invalid value. The message for a missing value is `is required`. */
export const fieldError = (message: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : message),
});

/**
 * Formats validation errors on one line: `categoryId is required; status must be one of …`. `whole` is the name of the
 * value itself, for an error that concerns no single field.
 */
export const describeIssues = ({ issues }: z.core.$ZodError, whole?: string): string =>
  issues.map((issue) => describeIssue(issue, whole)).join('; ');

/** Formats the first validation error: `0.status must be one of …`. `whole` as for `describeIssues`. */
export const describeFirstIssue = ({ issues: [first] }: z.core.$ZodError, whole?: string): string =>
  first ? describeIssue(first, whole) : '';

function describeIssue({ path, message }: z.core.$ZodIssue, whole?: string): string {
  const subject = path.length > 0 ? nameOf(path) : whole;
  return subject === undefined ? message : `${subject} ${message}`;
}

/** Names a value: `match.path`, or `rule 2: match.path` if it is in the second element of `rules`. */
function nameOf(path: readonly PropertyKey[]): string {
  const [list, index, ...rest] = path;
  if (typeof list !== 'string' || typeof index !== 'number') return path.map(String).join('.');
  const element = `${list.replace(/s$/, '')} ${index + 1}`;
  return rest.length === 0 ? element : `${element}: ${rest.map(String).join('.')}`;
}
