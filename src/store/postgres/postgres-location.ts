import type { LocationContext, StoreLocation } from '../backend.ts';
import { StoreError } from '../errors.ts';
import { createDatabase, queryOf } from './database.ts';
import { parseDatabaseTarget } from './database-target.ts';
import { migrate, pendingSql, schemaVersion } from './migrate.ts';
import { openPostgresBackend } from './postgres-backend.ts';
import { PostgresKeys } from './postgres-keys.ts';

/** A database that contains a store in its schema `pets`, or can contain one. @throws StoreError */
export function postgresLocation(url: string, context: LocationContext): StoreLocation {
  const target = parseDatabaseTarget(url, context);
  const database = createDatabase(target, context);
  const { place } = target;
  return {
    place,
    isShared: true,
    open: (options) => openPostgresBackend(database, options),
    manageKeys: (task) => database.run((client) => task(new PostgresKeys(queryOf(client, place)))),
    check: () => Promise.reject(new StoreError('not yet', '')),
    read: () => Promise.reject(new StoreError('not yet', '')),
    write: () => Promise.reject(new StoreError('not yet', '')),
    migrate: () =>
      database.run(async (client) => {
        const from = await schemaVersion(client);
        await migrate(client);
        return { from, to: await schemaVersion(client) };
      }),
    pendingSql: () => database.run((client) => pendingSql(client)),
  };
}
