import { DatabaseError } from 'pg';
import { StoreError, StoreUnavailableError, StoreUnwritableError } from '../errors.ts';

/**
 * What the failure of a call means:
 *
 * - `not_done`: nothing was stored, and the database cannot be used for now.
 * - `unknown`: the call may have been stored.
 * - `retry`: the call conflicted with another transaction. Nothing was stored, and the same call can be sent again.
 * - `bad_item`: the database cannot store the data of the call. Nothing was stored.
 * - `store_full`: the disk of the database is full. Nothing was stored.
 */
export type FailureKind = 'not_done' | 'unknown' | 'retry' | 'bad_item' | 'store_full';

/** How far a call came before it failed. */
export type CallPhase = 'connecting' | 'sent';

/** The call conflicted with another transaction. Nothing was stored, and the same call can be sent again. */
export class ConflictError extends StoreUnavailableError {}

/** The database cannot store the data of the call. Nothing was stored. */
export class BadItemError extends StoreError {}

/**
 * Kinds by the start of the SQLSTATE (PostgreSQL documentation, appendix A); the first match decides. After any other
 * error of a statement, PostgreSQL has rolled the statement back.
 */
const KINDS: readonly (readonly [prefix: string, kind: FailureKind])[] = [
  ['40001', 'retry'], // serialization_failure
  ['40P01', 'retry'], // deadlock_detected
  ['40003', 'unknown'], // statement_completion_unknown
  ['53100', 'store_full'], // disk_full
  ['08', 'unknown'], // connection exceptions
  ['57P', 'unknown'], // the server stops, or ends the connection
  ['21', 'bad_item'], // two items of a call that change the same row
  ['22', 'bad_item'], // data exceptions
  ['23', 'bad_item'], // violated constraints
  ['54', 'bad_item'], // exceeded limits, for example the largest size of a value
];

/**
 * The kind of an error of the driver or of a socket. An error that PostgreSQL reports has this kind only if the connection
 * stays open. If the connection ends, for example after a PANIC during a commit, the kind is `unknown`.
 */
export function failureKind(error: unknown): FailureKind {
  const state = sqlStateOf(error);
  if (state === undefined) return 'unknown';
  return KINDS.find(([prefix]) => state.startsWith(prefix))?.[1] ?? 'not_done';
}

/** The SQLSTATE that PostgreSQL reported, also if the error was converted to a StoreError. */
export function sqlStateOf(error: unknown): string | undefined {
  const source = error instanceof StoreError ? error.cause : error;
  return source instanceof DatabaseError ? source.code : undefined;
}

/** Our own SQLSTATE: the call must not be carried out here (`pets.refuse` in checks.sql). */
const REFUSED = 'PETS1';

/** SQLSTATEs after which a new connection can work although this one cannot. */
const OUTDATED_CONNECTION = new Set([
  REFUSED, // a standby server, or another store: the address may lead to another server now
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
export function toCallError(
  error: unknown,
  phase: CallPhase,
  place: string,
  kind = phase === 'connecting' ? 'not_done' : failureKind(error),
): StoreError {
  const action = phase === 'connecting' ? 'cannot connect to' : 'a call failed at';
  const message = `${action} ${place}: ${messageOf(error)}`;
  const hint = hintFor(error, phase);
  const options = { cause: error };
  switch (kind) {
    case 'retry':
      return new ConflictError(message, hint, { ...options, outcome: 'not_done' });
    case 'bad_item':
      return new BadItemError(message, hint, options);
    case 'store_full':
      return new StoreUnwritableError(message, hint, options);
    default:
      return new StoreUnavailableError(message, hint, { ...options, outcome: kind });
  }
}

/** A Node error that lists the failures of several addresses has no message of its own. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join(', ');
  // The message of Node ends with an empty list if the certificate contains no IP address.
  if (isOtherHostError(error)) {
    const names = error.cert.subjectaltname ?? `CN=${error.cert.subject?.CN}`;
    return `the server's certificate is for ${names}, not for ${error.host}`;
  }
  return error instanceof Error ? error.message : String(error);
}

/** The certificate of the server does not contain its host name. */
type OtherHostError = { host: string; cert: { subjectaltname?: string; subject?: { CN?: string } } };

const isOtherHostError = (error: unknown): error is OtherHostError =>
  error instanceof Error &&
  'cert' in error &&
  'code' in error &&
  error.code === 'ERR_TLS_CERT_ALTNAME_INVALID';

const CERTIFICATE_HINT =
  'check the certificate of the server, and sslmode and sslrootcert of the database URL';

const HINTS: readonly (readonly [codePrefix: string, hint: string])[] = [
  ['ENOTFOUND', 'check the host name'],
  ['ERR_TLS_CERT', 'use a host name of the certificate, or sslmode=verify-ca to accept any name'],
  ['CERT_', CERTIFICATE_HINT],
  ['DEPTH_ZERO_SELF_SIGNED', CERTIFICATE_HINT],
  ['SELF_SIGNED', CERTIFICATE_HINT],
  ['UNABLE_TO_', CERTIFICATE_HINT],
  ['EAI_AGAIN', 'check the host name and the name server'],
  ['08P01', 'for pgbouncer, add the parameter prepare=off to the URL (docs/postgres.md)'],
  ['28', 'check the user and the password (PGPASSWORD, ~/.pgpass)'],
  ['3D000', 'create the database, or check its name'],
  ['53100', 'free some disk space on the server of the database'],
  ['53300', 'raise max_connections, or stop other clients of the database server'],
  ['25006', 'use the primary server, or make the database writable'],
  ['55P03', 'another transaction holds a lock; pg_stat_activity shows it'],
  ['57014', 'another transaction may hold a lock; pg_stat_activity shows it'],
  ['42501', 'grant the privilege to this user'],
];

/**
 * Next steps if a limit of connections is reached that was set for the role or the database. These errors have the same
 * SQLSTATE as `max_connections`, so only the function of PostgreSQL that reports them shows which limit it is.
 */
const CONNECTION_LIMIT_HINTS: Readonly<Record<string, string>> = {
  InitializeSessionUserId:
    'raise the limit of this role (ALTER ROLE … CONNECTION LIMIT), or stop other servers',
  CheckMyDatabase:
    'raise the limit of this database (ALTER DATABASE … CONNECTION LIMIT), or stop other clients',
};

function hintFor(error: unknown, phase: CallPhase): string {
  if (error instanceof StoreError) return error.hint;
  if (error instanceof DatabaseError) {
    if (error.code === REFUSED && error.hint) return error.hint;
    const limit = error.code === '53300' && CONNECTION_LIMIT_HINTS[error.routine ?? ''];
    if (limit) return limit;
  }
  const code = sqlStateOf(error) ?? (error as { code?: unknown } | undefined)?.code;
  const hint = HINTS.find(([prefix]) => typeof code === 'string' && code.startsWith(prefix))?.[1];
  if (hint !== undefined) return hint;
  return phase === 'connecting'
    ? 'check that PostgreSQL is running, and check the host and the port'
    : 'see the log of PostgreSQL';
}

export const tooManyWaiting = (place: string): StoreUnavailableError =>
  new StoreUnavailableError(`too many calls wait for ${place}`, 'see the log of PostgreSQL', {
    outcome: 'not_done',
  });

export const closedError = (place: string): StoreError =>
  new StoreError(`${place} was closed`, 'start the server again');
