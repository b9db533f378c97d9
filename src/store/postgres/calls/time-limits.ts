import type { ClientConfig } from 'pg';
import type { Statement } from './session.ts';

/** The longest time to connect, in milliseconds. */
export const CONNECT_TIMEOUT_MS = 1_000;

/** The longest time for one call, in milliseconds, including the time to connect. */
export const CALL_TIMEOUT_MS = 2_000;

/** PostgreSQL gives up before the client does, so that the outcome is known. */
const STATEMENT_TIMEOUT_MS = 1_500;
const LOCK_TIMEOUT_MS = 1_400;
const IDLE_TRANSACTION_TIMEOUT_MS = 5_000;

/** How long a connection is idle before TCP checks that the other side still exists. */
const KEEP_ALIVE_DELAY_MS = 10_000;

/**
 * A large result holds the locks of its call until this process has read it. If this process does not read, for example
 * because it was stopped, PostgreSQL ends the connection after this time.
 */
export const LIMIT_UNREAD: Statement = {
  name: 'limit_unread',
  text: `select set_config('tcp_user_timeout', '${CALL_TIMEOUT_MS}', false)`,
};

/**
 * Settings of the driver for a `DatabaseConnection`, in addition to those of the user. pgbouncer (`prepare: false`) rejects
 * the limits of PostgreSQL. On its connections, the SQL functions limit waits for locks, and ALTER ROLE can limit statements.
 */
export const driverLimits = (prepare: boolean): ClientConfig => ({
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
  pipeline: true,
  ...(prepare && {
    statement_timeout: STATEMENT_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
  }),
});
