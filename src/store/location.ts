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
  // Such a text would be the name of a directory. The error does not contain it, because it may contain a password.
  if (/^[\w+.-]+:\/\/|(^|\s)(host|dbname|user|password|service)\s*=/i.test(text)) {
    throw new StoreError(
      'the place of the store is neither a directory nor the URL of a PostgreSQL database',
      'use a directory, or postgres://user@host/database',
    );
  }
  return journalLocation(text, context.clock);
}
