import { isAbsolute } from 'node:path';
import type { LocationContext, StoreLocation } from './backend.ts';
import { StoreError } from './errors.ts';
import { journalLocation } from './journal/journal-location.ts';

/**
 * Finds the store that a user has named: in a directory, or in the database of a URL. The driver of the database is loaded
 * only if it is needed.
 *
 * @throws StoreError
 */
export async function parseLocation(text: string, context: LocationContext): Promise<StoreLocation> {
  if (/^postgres(?:ql)?:/i.test(text)) {
    const { postgresLocation } = await import('./postgres/postgres-location.ts');
    return postgresLocation(text, context);
  }
  // A mistyped URL would be the name of a new directory. The error does not contain it, because it may contain a password.
  if (!isAbsolute(text) && !/^\.\.?[/\\]/.test(text) && /[:@=$"'`]|\/\//.test(text)) {
    throw new StoreError(
      'the place of the store is neither a directory nor the URL of a PostgreSQL database',
      'use a directory, or postgres://user@host/database without quotes or variables; ' +
        'start the name of a directory with ./ if it contains : @ = $ // or quotes',
    );
  }
  return journalLocation(text, context.clock);
}
