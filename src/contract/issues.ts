import type * as z from 'zod/mini';

/** Schema option that sets the message of an invalid value; a missing value always has the message `is required`. */
export const fieldError = (message: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : message),
});

/** Formats validation errors on one line: `categoryId is required; status must be one of …`. */
export const describeIssues = ({ issues }: z.core.$ZodError): string => issues.map(describeIssue).join('; ');

/** Formats the first validation error: `0.status must be one of …`. */
export const describeFirstIssue = ({ issues }: z.core.$ZodError): string =>
  issues.slice(0, 1).map(describeIssue).join();

const describeIssue = ({ path, message }: z.core.$ZodIssue): string =>
  path.length === 0 ? message : `${path.map(String).join('.')} ${message}`;
