import { isAbsolute } from 'node:path';
import type { LocationContext, StoreLocation } from './backend.ts';
import { StoreError } from './errors.ts';
import { journalLocation } from './journal/journal-location.ts';
import type { DatabaseLocation } from './postgres/postgres-location.ts';

/** Whether the text is the URL of a database, and not a directory. */
export const isDatabaseUrl = (text: string): boolean => /^postgres(?:ql)?:/i.test(text);

/** Like `parseLocation`, for the URL of a database. @throws StoreError */
export async function parseDatabaseUrl(url: string, context: LocationContext): Promise<DatabaseLocation> {
  const { postgresLocation } = await import('./postgres/postgres-location.ts');
  return postgresLocation(url, context);
}

/**
 * Returns the location that a user has named: a directory, or the URL of a database. Loads the driver of the database
 * only if it is needed.
 *
 * @throws StoreError
 */
export async function parseLocation(text: string, context: LocationContext): Promise<StoreLocation> {
  if (isDatabaseUrl(text)) return parseDatabaseUrl(text, context);
  // A mistyped URL would name a new directory. The error does not contain the text, which may contain a password.
  if (!isAbsolute(text) && !/^\.\.?[/\\]/.test(text) && /[:@=$"'`]|\/\//.test(text)) {
    throw new StoreError(
      'the store must be a directory, or the URL of a PostgreSQL database',
      'use a directory, or a URL such as postgres://user@host/database; ' +
        'start the name of a directory with ./ if it contains : @ = $ // or quotes',
    );
  }
  return journalLocation(text, context.clock);
}
