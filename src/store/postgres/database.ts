import type { Client } from 'pg';
import { StoreError } from '../errors.ts';
import { toCallError } from './calls/failures.ts';
import type { Query } from './calls/session.ts';
import { driverLimits } from './calls/time-limits.ts';
import { connectClient } from './connect/connect-client.ts';
import { readConnectionSettings } from './connect/connection-settings.ts';
import type { DatabaseTarget } from './connect/database-target.ts';
import { checkServer } from './schema/check-server.ts';

/** How long a command waits for each of these: a connection, the response to the first query, and each lock. */
const START_TIMEOUT_MS = 4_000;

/** A database and how to connect to it. */
export type Database = {
  /** The URL without its password. */
  place: string;
  prepare: boolean;
  /** Returns a number from 0 to 1, like `Math.random`. */
  random(): number;
  /** Opens a connection for a running server. Its calls have short time limits. */
  connect(): Promise<Client>;
  /**
   * Opens a connection, runs a task with it, and closes it. The task gets warnings about the settings of the database.
   *
   * @throws StoreUnavailableError if the database cannot be reached, StoreError, or the error of the task
   */
  run<Result>(task: (client: Client, warnings: readonly string[]) => Promise<Result>): Promise<Result>;
  /** Replaces the clock of the database in tests; otherwise returns null. */
  testTime(): number | null;
};

export type DatabaseOptions = {
  homeDirectory: string;
  random(): number;
  testTime?: (() => number) | undefined;
};

export function createDatabase(target: DatabaseTarget, options: DatabaseOptions): Database {
  const { homeDirectory, random, testTime = () => null } = options;
  const { place, prepare } = target;
  // Files are read for each connection, because a password or a certificate may have been replaced.
  const settings = () => readConnectionSettings(target, homeDirectory);

  async function open(): Promise<{ client: Client; warnings: readonly string[] }> {
    const found = await settings();
    const client = await connectClient(found, {
      connectionTimeoutMillis: START_TIMEOUT_MS,
      // pgbouncer rejects this setting.
      ...(prepare && { lock_timeout: START_TIMEOUT_MS }),
    });
    const timer = setTimeout(() => client.connection.stream.destroy(), START_TIMEOUT_MS);
    try {
      return { client, warnings: [...found.warnings, ...(await checkServer(client))] };
    } catch (error) {
      client.connection.stream.destroy();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    place,
    prepare,
    random,
    testTime,
    connect: async () => connectClient(await settings(), driverLimits(prepare)),
    async run(task) {
      const { client, warnings } = await open().catch((error) => {
        throw error instanceof StoreError ? error : toCallError(error, 'connecting', place);
      });
      try {
        return await task(client, warnings);
      } catch (error) {
        throw error instanceof StoreError ? error : toCallError(error, 'sent', place);
      } finally {
        await client.end().catch(() => {});
      }
    },
  };
}

/** Sends statements on a connection. This process sets no time limit for them. */
export const queryOf =
  (client: Client, place: string): Query =>
  async (statement, values) => {
    try {
      return (await client.query(statement.text, values)).rows;
    } catch (error) {
      throw toCallError(error, 'sent', place);
    }
  };
