import type * as z from 'zod/mini';

/** Schema option that sets the message of an invalid value; a missing value always has the message `is required`. */
export const fieldError = (message: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : message),
});

/** Formats validation errors on one line: `categoryId is required; status must be one of …`. */
export function describeIssues(error: z.core.$ZodError): string {
  return error.issues.map(describeIssue).join('; ');
}

/** Formats the first validation error: `0.status must be one of …`. */
export const describeFirstIssue = (error: z.core.$ZodError): string =>
  error.issues.slice(0, 1).map(describeIssue).join();

const describeIssue = ({ path, message }: z.core.$ZodIssue): string => [...pathOf(path), message].join(' ');

function pathOf(path: PropertyKey[]): string[] {
  return path.length === 0 ? [] : [path.map(String).join('.')];
}
