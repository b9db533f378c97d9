import type * as z from 'zod/mini';

/** Schema option that sets the message of an invalid value; a missing value always has the message `is required`. */
export const fieldError = (message: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : message),
});

/** Formats validation errors on one line: `categoryId is required; status must be one of …`. */
export const describeIssues = ({ issues }: z.core.$ZodError): string =>
  issues
    .map(({ path, message }) => (path.length === 0 ? message : `${path.map(String).join('.')} ${message}`))
    .join('; ');
