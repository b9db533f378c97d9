import type * as z from 'zod/mini';

/** A schema option that sets the message for an invalid value. The message for a missing value is `is required`. */
export const fieldError = (message: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : message),
});

/**
 * Formats validation errors on one line: `categoryId is required; status must be one of …`. `whole` is the name of the
 * value itself, for an error that concerns no single field.
 */
export const describeIssues = ({ issues }: Pick<z.core.$ZodError, 'issues'>, whole?: string): string =>
  issues
    .map(({ path, message }) => [path.length > 0 ? nameOf(path) : whole, message].filter(Boolean).join(' '))
    .join('; ');

/** Names a value: `match.path`, or `rule 2: match.path` if it is in the second element of `rules`. */
function nameOf(path: readonly PropertyKey[]): string {
  const [list, index, ...rest] = path;
  if (typeof list !== 'string' || typeof index !== 'number') return path.map(String).join('.');
  const element = `${list.replace(/s$/, '')} ${index + 1}`;
  return rest.length === 0 ? element : `${element}: ${rest.map(String).join('.')}`;
}
