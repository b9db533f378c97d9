import type { Client } from 'pg';
import type { LocationContext, StoreLocation } from '../backend.ts';
import { parseDatabaseTarget } from './connect/database-target.ts';
import { createDatabase, queryOf } from './database.ts';
import { openPostgresBackend } from './postgres-backend.ts';
import { PostgresKeys } from './postgres-keys.ts';
import { readDatabase } from './read-database.ts';
import { migrate, pendingSql } from './schema/migrate.ts';
import { validateContents } from './validate-contents.ts';
import { commitCopy, writeDatabase } from './write-database.ts';

/** A database that contains a store in its schema `pets`, or can contain one. @throws StoreError */
export function postgresLocation(url: string, context: LocationContext): StoreLocation {
  const target = parseDatabaseTarget(url, context);
  const database = createDatabase(target, context);
  const { place } = target;
  const read: StoreLocation['read'] = (task, signal) =>
    database
      .run((client) =>
        stopIfAborted(client, signal, async () => {
          await beginReading(client);
          return task(validateContents(await readDatabase(client, place, database.testTime()), place));
        }),
      )
      .catch((error) => {
        signal?.throwIfAborted();
        throw error;
      });
  return {
    place,
    isShared: true,
    open: (options) => openPostgresBackend(database, options),
    manageKeys: (task) =>
      database.run((client) => task(new PostgresKeys(queryOf(client, place), () => migrate(client)))),
    check: () =>
      read(async ({ report, animals }) => {
        for await (const _ of animals());
        return report;
      }),
    read,
    async write(contents, verify, signal) {
      let isWritten = false;
      try {
        await database.run(async (client) => {
          await stopIfAborted(client, signal, () => writeDatabase(client, place, contents, verify));
          isWritten = true;
          await commitCopy(client, place);
        });
      } catch (error) {
        if (!isWritten) signal?.throwIfAborted();
        throw error;
      }
    },
    migrate: () => database.run((client) => migrate(client)),
    pendingSql: () => database.run((client) => pendingSql(client)),
  };
}

/** All statements of the transaction see the same state. The transaction may be idle while the target of a copy is written. */
async function beginReading(client: Client): Promise<void> {
  await client.query(`begin isolation level repeatable read read only;
    set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0`);
}

/** Runs a task. Ends the connection if the signal is aborted meanwhile, so that the current call fails. */
async function stopIfAborted<Result>(
  client: Client,
  signal: AbortSignal | undefined,
  task: () => Promise<Result>,
): Promise<Result> {
  const stop = () => void client.connection.stream.destroy();
  signal?.throwIfAborted();
  signal?.addEventListener('abort', stop);
  try {
    const result = await task();
    signal?.throwIfAborted();
    return result;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}
