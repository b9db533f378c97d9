import { type Client, DatabaseError } from 'pg';
import { systemReason } from '../../system/file-system.ts';
import { StoreError, StoreUnavailableError, StoreUnwritableError } from '../errors.ts';

/** The start of each SQLSTATE that leaves the outcome open (PostgreSQL documentation, appendix A). */
const UNKNOWN_OUTCOME = /^(40003|08|57P)/; // completion unknown, connection exceptions, the server ends the connection

const DISK_FULL = '53100';
const PRIVILEGE = '42501';

/**
 * Whether PostgreSQL has reported an error after which it has rolled the statement back. If the connection ends after
 * the error, for example after a PANIC during a commit, the statement may have been committed nevertheless.
 */
export function isRolledBack(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state !== undefined && !UNKNOWN_OUTCOME.test(state);
}

/** The SQLSTATE that PostgreSQL reported, even if the error was converted to a StoreError. */
export function sqlStateOf(error: unknown): string | undefined {
  const source = error instanceof StoreError ? error.cause : error;
  return source instanceof DatabaseError ? source.code : undefined;
}

/** SQLSTATEs after which a new connection can work although this one cannot. */
const OUTDATED_CONNECTION = new Set([
  'PETS1', // a standby server, another store or schema version (tables.sql): the address may lead to another server now
  '25006', // the server is read-only, and another one may have taken over its address
  '26000', // the server does not know the prepared statement
  '42P05', // the server has another prepared statement with this name
  '0A000', // the prepared statement no longer fits the tables
]);

/** Whether the connection must be replaced after this error. */
export const isConnectionOutdated = (error: unknown): boolean =>
  OUTDATED_CONNECTION.has(sqlStateOf(error) ?? '');

/** Converts an error of an attempt to connect. `place` is the URL of the database without its password. */
export const connectFailure = (error: unknown, place: string): StoreError =>
  storeErrorOf(
    error,
    `cannot connect to ${place}`,
    'check the host and the port, and that PostgreSQL has started there',
    'not_done',
  );

/** Converts the error of a call. `outcome` must be `not_done` only if it is certain that nothing was stored. */
export const callFailure = (error: unknown, place: string, outcome: 'not_done' | 'unknown'): StoreError =>
  storeErrorOf(error, `a call failed at ${place}`, 'see the log of PostgreSQL', outcome);

function storeErrorOf(
  error: unknown,
  event: string,
  otherHint: string,
  outcome: 'not_done' | 'unknown',
): StoreError {
  const message = `${event}: ${messageOf(error)}`;
  const hint = hintFor(error) ?? otherHint;
  const state = sqlStateOf(error);
  if (outcome === 'not_done' && state === DISK_FULL)
    return new StoreUnwritableError(message, hint, { cause: error });
  const code = state === PRIVILEGE ? 'privilege' : 'other';
  return new StoreUnavailableError(message, hint, { cause: error, code, outcome });
}

/** Describes an error in words. An AggregateError of Node has no message, so those of its errors are joined. */
export function messageOf(error: unknown): string {
  if (!(error instanceof AggregateError)) return systemReason(error);
  return [...new Set(error.errors.map(messageOf))].join(', ');
}

/** Hints by the start of Node's error code or of the SQLSTATE; the first match decides. */
const HINTS: readonly (readonly [beginning: RegExp, hint: string])[] = [
  [/^(ENOTFOUND|EAI_AGAIN)/, 'check the host name and the name server'],
  [/^ERR_TLS_CERT/, 'use a host name in the certificate, or sslmode=verify-ca with sslrootcert for any name'],
  [
    /^(CERT_|DEPTH_ZERO_|SELF_SIGNED|UNABLE_TO_)/,
    'check the certificate of the server, and sslmode and sslrootcert of the database URL',
  ],
  [
    /^08P01/,
    'if the URL leads to pgbouncer, add prepare=off to the URL, and use the pool mode transaction or session',
  ],
  [/^28/, 'check the user, the password (URL, PGPASSWORD, ~/.pgpass), and pg_hba.conf of the server'],
  [/^3D000/, 'create the database, or check its name'],
  [/^(3F000|42P01)/, 'restore the schema pets; or, if it was deleted on purpose, start the server again'],
  [
    /^53300/,
    'raise max_connections, or the limit of the role or the database (ALTER ROLE, ALTER DATABASE), or stop other clients',
  ],
  [
    /^(55P03|57014)/,
    'check in pg_stat_activity whether another transaction holds a lock; if so, end that transaction, or wait until it ends',
  ],
];

/** The hint for a known error, or else that of the error, for example the one of a function in tables.sql. */
function hintFor(error: unknown): string | undefined {
  const { code, hint } = error as { code?: unknown; hint?: string };
  const entry = HINTS.find(([beginning]) => typeof code === 'string' && beginning.test(code));
  return entry?.[1] ?? hint;
}

/**
 * PostgreSQL reports success if a commit that waits for a synchronous replica is canceled, and only adds a warning. Returns a
 * function that ends the watch, and returns an error if a commit on the connection got the warning.
 */
export function watchCommit(client: Client): () => Error | undefined {
  let problem: Error | undefined;
  const onNotice = ({ routine }: { routine?: string | undefined }) => {
    if (routine === 'SyncRepWaitForLSN')
      problem = new Error('no synchronous replica has confirmed the commit');
  };
  client.on('notice', onNotice);
  return () => {
    client.off('notice', onNotice);
    return problem;
  };
}
