import { DatabaseError } from 'pg';
import { StoreError, StoreUnavailableError, StoreUnwritableError } from '../errors.ts';

/**
 * What the failure of a call means:
 *
 * - `not_done`: nothing was stored, and the database cannot be used for now.
 * - `unknown`: the change may have been stored.
 * - `store_full`: the disk of the database is full. Nothing was stored.
 */
export type FailureKind = 'not_done' | 'unknown' | 'store_full';

/** How far a call came before it failed. */
export type CallPhase = 'connecting' | 'sent';

/** The start of each SQLSTATE that leaves the outcome open (PostgreSQL documentation, appendix A). */
const UNKNOWN_OUTCOME = /^(40003|08|57P)/; // completion unknown, connection exceptions, the server ends the connection

const DISK_FULL = '53100';

/**
 * The kind of an error of the driver or of a socket. If the connection ends after an error that PostgreSQL has
 * reported, for example after a PANIC during a commit, the caller must use `unknown` instead.
 */
export function failureKind(error: unknown): FailureKind {
  const state = sqlStateOf(error);
  if (state === undefined || UNKNOWN_OUTCOME.test(state)) return 'unknown';
  // After any other error, PostgreSQL has rolled the statement back.
  return state === DISK_FULL ? 'store_full' : 'not_done';
}

/** The SQLSTATE that PostgreSQL reported, also if the error was converted to a StoreError. */
export function sqlStateOf(error: unknown): string | undefined {
  const source = error instanceof StoreError ? error.cause : error;
  return source instanceof DatabaseError ? source.code : undefined;
}

/** Our own SQLSTATE: the call must not run on this server or in this database (`pets.check_store` in checks.sql). */
const REFUSED = 'PETS1';

/** SQLSTATEs after which a new connection can work although this one cannot. */
const OUTDATED_CONNECTION = new Set([
  REFUSED, // a standby server, another store or schema version: the address may lead to another server now
  '25006', // the server is read-only, and another one may have taken over its address
  '26000', // the server does not know the prepared statement
  '42P05', // the server has another prepared statement with this name
  '0A000', // the prepared statement no longer fits the tables
]);

/** Whether the connection must be replaced after this error. */
export function isConnectionOutdated(error: unknown): boolean {
  return OUTDATED_CONNECTION.has(sqlStateOf(error) ?? '');
}

/** Converts the error of a call to a StoreError. `place` is the URL of the database without its password. */
export function callFailure(
  error: unknown,
  phase: CallPhase,
  place: string,
  kind = phase === 'connecting' ? 'not_done' : failureKind(error),
): StoreError {
  const action = phase === 'connecting' ? 'cannot connect to' : 'a call failed at';
  const message = `${action} ${place}: ${messageOf(error)}`;
  const hint = hintFor(error, phase);
  if (kind === 'store_full') return new StoreUnwritableError(message, hint, { cause: error });
  return new StoreUnavailableError(message, hint, { cause: error, outcome: kind });
}

/** The message of an error. An AggregateError of Node has none, so the messages of its errors are joined. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join(', ');
  return error instanceof Error ? error.message : String(error);
}

/** Hints by the start of Node's error code or of the SQLSTATE; the first match decides. */
const HINTS: readonly (readonly [beginning: RegExp, hint: string])[] = [
  [/^(ENOTFOUND|EAI_AGAIN)/, 'check the host name and the name server'],
  [/^ERR_TLS_CERT/, 'use a host name that is in the certificate, or sslmode=verify-ca to accept any name'],
  [
    /^(CERT_|DEPTH_ZERO_|SELF_SIGNED|UNABLE_TO_)/,
    'check the certificate of the server, and sslmode and sslrootcert of the database URL',
  ],
  [
    /^08P01/,
    'if the URL leads to pgbouncer, add prepare=off to the URL, and use the pool mode transaction or session',
  ],
  [/^28/, 'check the user, the password (PGPASSWORD, ~/.pgpass), and pg_hba.conf of the server'],
  [/^3D000/, 'create the database, or check its name'],
  [/^53100/, 'free some disk space on the server of the database'],
  [
    /^53300/,
    'raise max_connections, or the limit of the role or the database (ALTER ROLE, ALTER DATABASE), or stop other clients',
  ],
  [/^25006/, 'use the primary server, or make the database writable'],
  [
    /^(55P03|57014)/,
    'check in pg_stat_activity whether another transaction holds a lock; if so, end that transaction, or wait until it ends',
  ],
  [/^42501/, 'grant the missing privilege to the database user'],
];

function hintFor(error: unknown, phase: CallPhase): string {
  if (error instanceof StoreError) return error.hint;
  const { code, hint } = error as { code?: unknown; hint?: string };
  if (code === REFUSED && hint) return hint;
  const known = HINTS.find(([beginning]) => typeof code === 'string' && beginning.test(code));
  if (known) return known[1];
  return phase === 'connecting'
    ? 'check that PostgreSQL is running, and check the host and the port'
    : 'see the log of PostgreSQL';
}

export const closedError = (place: string): StoreError =>
  new StoreError(`${place} was closed`, 'start the server again');
