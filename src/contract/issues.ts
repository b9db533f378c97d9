import type * as z from 'zod/mini';

/** The message of a value that is missing, or else of one that is not what it must be. */
export const says = (message: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : message),
});

/** What is wrong with a value, field by field: `categoryId is required; status must be one of …`. */
export function describeIssues(error: z.core.$ZodError): string {
  return error.issues.map((issue) => [...pathOf(issue.path), issue.message].join(' ')).join('; ');
}

function pathOf(path: PropertyKey[]): string[] {
  return path.length === 0 ? [] : [path.map(String).join('.')];
}
