import { StoreError } from '../../errors.ts';
import {
  type ConnectionParameters,
  checkParameters,
  type EnvironmentVariables,
  parametersFromEnvironment,
  type SslMode,
  SYSTEM_AUTHORITIES,
  sourceOf,
} from './connection-parameters.ts';
import { formatDatabaseUrl, parseDatabaseUrl, URL_HINT } from './database-url.ts';

/** What the connection depends on, besides the URL. */
export type ConnectionEnvironment = {
  env: EnvironmentVariables;
  homeDirectory: string;
  /** The name of the user of the operating system; undefined if the user has none, as in some containers. */
  userName: string | undefined;
};

/** A database that a user has named. */
export type DatabaseTarget = {
  /** The URL of the same database without passwords. A user can use it as --data. */
  place: string;
  /** False if connections go through a pooler that does not support named prepared statements. */
  prepare: boolean;
  user: string;
  database: string;
  /** The host name, address or directory of the socket; undefined for the default. */
  host: string | undefined;
  port: number;
  sslmode: SslMode;
  parameters: ConnectionParameters;
};

const DEFAULT_PORT = 5432;

/**
 * Parses a database URL and the environment variables of libpq, which apply to what the URL does not contain. No error
 * message contains a password.
 *
 * @throws StoreError
 */
export function parseDatabaseTarget(url: string, environment: ConnectionEnvironment): DatabaseTarget {
  const given = { ...parametersFromEnvironment(environment.env), ...parseDatabaseUrl(url) };
  checkParameters(given);
  checkTimeout(given.connect_timeout);
  const host = given.host || undefined;
  const user = given.user || environment.userName;
  if (!user) throw new StoreError('the database URL contains no user', URL_HINT);
  const database = given.dbname || user;
  if ([host, given.port].some((part) => part?.includes(','))) {
    throw new StoreError(
      'the database URL contains several hosts',
      'use one address that always leads to the writable server, for example of HAProxy or in DNS (docs/postgres.md)',
    );
  }
  const port = parsePort(given.port);
  const sslmode = parseSslMode(given);
  if (given.channel_binding === 'require' && (sslmode === 'disable' || host?.startsWith('/')))
    throw new StoreError('channel_binding=require needs a connection with TLS', 'use sslmode=require');
  const defaults = {
    ...(port === DEFAULT_PORT && { port: '' }),
    ...(sslmode === 'prefer' && { sslmode: '' }),
  };
  return {
    place: formatDatabaseUrl({ ...given, user, dbname: database, port: `${port}`, sslmode, ...defaults }),
    prepare: given.prepare !== 'off',
    user,
    database,
    host,
    port,
    sslmode,
    parameters: given,
  };
}

function parsePort(text = ''): number {
  const port = Number(text.trim() || DEFAULT_PORT);
  // The message does not contain the text, which may be a part of a password that is not percent-encoded.
  if (!/^\s*\d*\s*$/.test(text) || port < 1 || port > 65_535)
    throw new StoreError('the port of the database is not a number from 1 to 65535', URL_HINT);
  return port;
}

/** Refuses a value that libpq refuses. Other values have no effect, because pets has its own time limits. */
function checkTimeout(text = ''): void {
  if (!/^\s*(?:[+-]?\d{1,6})?\s*$/.test(text)) {
    throw new StoreError(
      `the value of ${sourceOf('connect_timeout')} is not valid`,
      'use a number of seconds; 0 means no limit',
    );
  }
}

function parseSslMode({ sslmode, sslrootcert }: ConnectionParameters): SslMode {
  const trustsSystem = sslrootcert === SYSTEM_AUTHORITIES;
  const mode = (sslmode as SslMode | undefined) ?? (trustsSystem ? 'verify-full' : 'prefer');
  if (trustsSystem && mode !== 'verify-full') {
    throw new StoreError(
      `sslrootcert=${SYSTEM_AUTHORITIES} needs sslmode=verify-full`,
      'public authorities sign certificates for anybody, so only the host name shows which server it is',
    );
  }
  return mode;
}
