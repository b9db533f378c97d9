import type { Client, QueryResultRow } from 'pg';
import { StoreError, StoreUnavailableError } from '../errors.ts';
import type { PrimaryConnector } from './connect/primary-connector.ts';
import { callFailure, connectFailure } from './failures.ts';
import type { Statement } from './pool.ts';
import { beginSql, type Isolation, SCHEMA_VERSION } from './schema.ts';

/** How long a command waits for a connection. */
const CONNECT_TIMEOUT_MS = 4_000;

type TransactionOptions = {
  /** By default, `read committed`. */
  isolation?: Isolation;
  /** If aborted, the connection is closed. */
  signal?: AbortSignal | undefined;
  /** After this time, in milliseconds, the connection is closed. */
  timeout?: number;
};

/**
 * Opens a connection, runs a task in a transaction, commits, and closes the connection. After an error, nothing was
 * changed, except after a StoreUnavailableError with the outcome `unknown`.
 *
 * @throws StoreUnavailableError if the database cannot be reached, another StoreError, to which other errors of the
 * task are converted, or the reason of `signal`
 */
export async function runTransaction<Result>(
  connector: PrimaryConnector,
  task: (client: Client) => Promise<Result>,
  { isolation, signal, timeout }: TransactionOptions = {},
): Promise<Result> {
  signal?.throwIfAborted();
  const { place } = connector.target;
  const options = { timeout: CONNECT_TIMEOUT_MS, isServer: false, signal };
  const client = await connector.connect(options).catch((error) => {
    signal?.throwIfAborted();
    throw connectFailure(error, place);
  });
  const stop = () => void client.connection.stream.destroy();
  signal?.addEventListener('abort', stop);
  const timer = timeout === undefined ? undefined : setTimeout(stop, timeout);
  try {
    return await inTransaction(client, place, () => task(client), isolation);
  } catch (error) {
    const isUnknown = error instanceof StoreUnavailableError && error.outcome === 'unknown';
    if (!isUnknown) signal?.throwIfAborted();
    throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
    await client.end().catch(() => {});
  }
}

/**
 * Runs a task in a transaction on an open connection, and commits. The caller closes the connection after an error.
 *
 * @throws StoreUnavailableError with the outcome `unknown` if it is not known whether the transaction was committed, or
 * another StoreError if it was not
 */
export async function inTransaction<Result>(
  client: Client,
  place: string,
  task: () => Promise<Result>,
  isolation: Isolation = 'read committed',
): Promise<Result> {
  const begun = client.query(beginSql(isolation));
  const result = await begun.then(task).catch((error) => {
    throw error instanceof StoreError ? error : callFailure(error, place, 'not_done');
  });
  const { command } = await client.query('commit').catch((error) => {
    throw new StoreUnavailableError(
      `the connection to ${place} ended during the commit: the change may have been stored`,
      'check whether the store contains the change before you repeat it',
      { cause: error, outcome: 'unknown' },
    );
  });
  // PostgreSQL reports success if it has rolled back a transaction because of an earlier error.
  if (command !== 'COMMIT') throw new StoreError(`${place} has rolled back the transaction`, 'try again');
  return result;
}

/** Calls a function of the schema `pets`, and returns its rows. A single value is in the column `result`. */
export type FunctionCaller = <Row extends QueryResultRow>(
  name: string,
  ...values: readonly unknown[]
) => Promise<Row[]>;

/** How a running server uses the store in a database. */
export type DatabaseForServer = {
  /** Each call is a transaction of its own, and ends within about two seconds. */
  call: FunctionCaller;
  /** Like `call`, but without a time limit. */
  callWithoutLimit: FunctionCaller;
  /** The time that replaces the clock of the database in tests, in milliseconds since the epoch; otherwise null. */
  testTime(): number | null;
  /** Completes the calls in flight. Later calls are rejected. */
  close(): Promise<void>;
};

/**
 * The statement that calls a function of the schema `pets`. The function refuses the call on a standby server, or if
 * the store or the version of the schema differs. The `search_path` has no effect on the statement.
 */
export function statementForCall(name: string, storeId: string, values: readonly unknown[]): Statement {
  const all = [storeId, SCHEMA_VERSION, ...values];
  const parameters = all.map((_, i) => `$${i + 1}`).join(', ');
  return { name, text: `select * from pets.${name}(${parameters}) as result`, values: all };
}

/** Returns a function that calls functions of the schema `pets` on one connection, without a time limit. */
export const createFunctionCaller =
  (client: Client, storeId: string): FunctionCaller =>
  async (name, ...values) => {
    const statement = statementForCall(name, storeId, values);
    return (await client.query(statement.text, statement.values)).rows;
  };
