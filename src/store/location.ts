import type { LocationContext, StoreLocation } from './backend.ts';
import { journalLocation } from './journal/journal-location.ts';

/**
 * Finds the kind of store that a user has named: a directory or the URL of a database. No other function looks at the form
 * of the name. The driver of the database is loaded only if it is needed.
 *
 * @throws StoreError
 */
export async function parseLocation(text: string, context: LocationContext): Promise<StoreLocation> {
  if (!/^postgres(?:ql)?:/i.test(text)) return journalLocation(text, context.clock);
  const { postgresLocation } = await import('./postgres/postgres-location.ts');
  return postgresLocation(text, context);
}
