import pgpass from 'pgpass/lib/helper.js';
import { LOOPBACK_NAME_PATTERN } from '../../../contract/headers.ts';
import type { LocationContext } from '../../backend.ts';
import { StoreError } from '../../errors.ts';

// Reads the URL of a database like libpq, with the parameters that pets supports. A part of a password must never become
// a host, a database or a message, even if the user has not percent-encoded it.

/** A database that a user has named. */
export type DatabaseTarget = {
  /** The URL of the same database without its password. */
  place: string;
  /** False if connections go through a pooler that does not support named prepared statements. */
  prepare: boolean;
  user: string;
  database: string;
  hosts: readonly DatabaseHost[];
  parameters: ConnectionParameters;
  /** The path of the file with passwords, which may be missing. */
  passwordFile: string;
};

export type DatabaseHost = {
  /** The host name, address or directory of the socket. */
  name: string;
  port: number;
  sslmode: SslMode;
};

const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const;

type SslMode = (typeof SSL_MODES)[number];

/**
 * The parameters of a connection, each with its environment variable. All except `prepare` are parameters of libpq.
 *
 * @see https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
 */
const VARIABLES = {
  user: 'PGUSER',
  password: 'PGPASSWORD',
  dbname: 'PGDATABASE',
  host: 'PGHOST',
  port: 'PGPORT',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  channel_binding: 'PGCHANNELBINDING',
  application_name: 'PGAPPNAME',
  options: 'PGOPTIONS',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
  gssencmode: 'PGGSSENCMODE',
  prepare: undefined,
} as const;

type ParameterName = keyof typeof VARIABLES;
type ConnectionParameters = Partial<Record<ParameterName, string>>;

const PARAMETER_NAMES = Object.keys(VARIABLES) as ParameterName[];

/** The parameters that can follow the `?` of a database URL. */
const QUERY_NAMES = PARAMETER_NAMES.filter((name) => !['user', 'password', 'dbname'].includes(name));

const VALUES: Partial<Record<ParameterName, readonly string[]>> = {
  sslmode: SSL_MODES,
  channel_binding: ['disable', 'prefer', 'require'],
  // Both have the same meaning, because pets only uses a server that accepts writes.
  target_session_attrs: ['read-write', 'primary'],
  gssencmode: ['disable', 'prefer'],
  prepare: ['on', 'off'],
};

/** Parameters of libpq that neither choose a server nor protect the connection. They have no effect. */
const IGNORED =
  /^(connect_timeout|keepalives(_idle|_interval|_count)?|tcp_user_timeout|client_encoding|fallback_application_name|sslcompression|sslsni|load_balance_hosts)$/;

/** Variables of libpq that choose another server or demand more security. Ignoring one would be dangerous. */
const UNSUPPORTED_VARIABLES =
  /^PG(SERVICE|HOSTADDR|REQUIREAUTH|REQUIREPEER|REQUIRESSL|SSLCERTMODE|SSLCRL|SSLCRLDIR|SSLMINPROTOCOLVERSION)$/;

const DEFAULT_PORT = 5432;

const URL_HINT =
  'write postgres://user@host:5432/database, and percent-encode special characters: @ as %40, / as %2F, % as %25, = in a parameter as %3D';

/**
 * Parses a database URL and the environment variables of libpq, which apply to what the URL does not contain.
 *
 * @throws StoreError, whose message contains no part of a password
 */
export function parseDatabaseTarget(
  url: string,
  { env, userName }: Pick<LocationContext, 'env' | 'userName'>,
): DatabaseTarget {
  const unsupported = Object.keys(env).find((name) => env[name] && UNSUPPORTED_VARIABLES.test(name));
  if (unsupported) refuse(`the environment variable ${unsupported}`, 'unset it', unsupported === 'PGSERVICE');
  const given = { ...parseEnvironment(env), ...parseUrl(url) };
  for (const [name, allowed] of Object.entries(VALUES) as [ParameterName, string[]][]) {
    const value = given[name];
    if (value === undefined || allowed.includes(value)) continue;
    const variable = VARIABLES[name];
    const source = variable ? `${name} (or ${variable})` : name;
    throw new StoreError(`the value of ${source} is not supported`, `use ${listOf(allowed)}`);
  }
  if (given.sslmode === 'verify-ca' && !given.sslrootcert) {
    throw new StoreError(
      'sslmode=verify-ca needs sslrootcert, the certificate of the authority',
      'set sslrootcert to the path of that file; or use sslmode=verify-full if a public authority has issued the certificate of the server',
    );
  }
  const user = given.user || userName;
  if (!user) throw new StoreError('the database URL contains no user', URL_HINT);
  const database = given.dbname || user;
  const hosts = parseHosts(given);
  return {
    place: formatUrl(user, hosts, database, given),
    prepare: given.prepare !== 'off',
    user,
    database,
    hosts,
    parameters: given,
    passwordFile: pgpass.getFileName(env),
  };
}

function parseEnvironment(env: LocationContext['env']): ConnectionParameters {
  const pairs = PARAMETER_NAMES.map((name) => [name, env[VARIABLES[name] ?? '']]);
  return Object.fromEntries(pairs.filter(([, value]) => value));
}

/** The parts of a URL: user, password, hosts, database and query. */
const PARTS = /^postgres(?:ql)?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^@/?]*)(?:\/([^@?]*))?(?:\?([^@]*))?$/is;

/**
 * Parses a URL. Refuses an additional @, because it comes from a password that is not encoded. libpq accepts it, and
 * uses a part of the password as the host, the database or a parameter. Then, that part would be printed.
 */
function parseUrl(text: string): ConnectionParameters {
  const [, user, password, authority = '', dbname, query = ''] = PARTS.exec(text) ?? malformed();
  const hosts = authority
    .split(',')
    .map((each) => /^(?:\[([^[\]]+)\]|([^:[\]]*))(?::(.*))?$/s.exec(each) ?? malformed());
  const host = hosts.map(([, bracketed, name]) => bracketed ?? name).join(',');
  const ports = hosts.map(([, , , port = '']) => port);
  const port = ports.some(Boolean) ? ports.join(',') : '';
  const pairs = Object.entries({ user, password, host, port, dbname }).filter(([, value]) => value);
  const all = [...pairs, ...parseQuery(query)];
  return Object.fromEntries(all.map(([name, value = '']) => [name, decode(value)]));
}

function parseQuery(query: string): [name: string, value: string][] {
  const pairs = query.split('&').filter(Boolean);
  return pairs.flatMap((pair) => {
    const [encodedName = '', value, ...others] = pair.split('=');
    if (value === undefined || others.length > 0) malformed();
    const name = decode(encodedName);
    if (IGNORED.test(name)) return [];
    if (QUERY_NAMES.some((each) => each === name)) return [[name, value]];
    const what = /^\w{1,40}$/.test(name) ? `the parameter ${name}` : 'a parameter';
    return refuse(`${what} of the database URL`, 'remove it', name === 'service');
  });
}

/** As in libpq, there is one port for each host, or one for all. */
function parseHosts({ host = '', port = '', sslmode }: ConnectionParameters): DatabaseHost[] {
  const names = host.split(',');
  const ports = port.split(',');
  if (ports.length !== 1 && ports.length !== names.length)
    throw new StoreError(
      'the numbers of hosts and ports of the database differ',
      'in the URL, or in PGHOST and PGPORT, give one port for each host, or one for all',
    );
  return names.map((text, i) => {
    const name = text || 'localhost';
    const isSocket = name.startsWith('/');
    const isLocal = isSocket || LOOPBACK_NAME_PATTERN.test(name.includes(':') ? `[${name}]` : name);
    return {
      name,
      port: parsePort(ports[i] ?? ports[0]),
      sslmode: isSocket ? 'disable' : ((sslmode as SslMode) ?? (isLocal ? 'disable' : 'require')),
    };
  });
}

function parsePort(text = ''): number {
  const port = Number(text || DEFAULT_PORT);
  // The message does not contain the text, which may be a part of a password that is not percent-encoded.
  if (!/^\d*$/.test(text) || port < 1 || port > 65_535)
    throw new StoreError(
      'the port of the database (URL or PGPORT) must be a number from 1 to 65535',
      URL_HINT,
    );
  return port;
}

/** The URL without the password. Empty parameters are omitted. */
function formatUrl(
  user: string,
  hosts: readonly DatabaseHost[],
  database: string,
  parameters: ConnectionParameters,
): string {
  // The hosts are before the query, even the directory of a socket.
  const others = QUERY_NAMES.filter((name) => parameters[name] && name !== 'host' && name !== 'port');
  const query = others.map((name) => `${name}=${encode(parameters[name] ?? '')}`).join('&');
  return `postgres://${encode(user)}@${hosts.map(formatHost).join(',')}/${encode(database)}${query && `?${query}`}`;
}

/** A host as in a URL, without the default port. */
export function formatHost({ name, port }: DatabaseHost): string {
  const host = name.includes(':') ? `[${encode(name)}]` : encodeURIComponent(name);
  return port === DEFAULT_PORT ? host : `${host}:${port}`;
}

/** Encodes a text, except slashes and colons, so that paths and IPv6 addresses stay readable. */
const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll('%2F', '/').replaceAll('%3A', ':');

function decode(text: string): string {
  try {
    const decoded = decodeURIComponent(text);
    if (!decoded.includes('\0')) return decoded;
  } catch {
    // Report an error without the text, which may be a part of a password.
  }
  return malformed();
}

const listOf = (names: readonly string[]): string => `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;

function refuse(what: string, remedy: string, isService: boolean): never {
  const instead = isService
    ? 'copy the entry of pg_service.conf into the URL'
    : `the part of the database URL after the ? can contain ${listOf(QUERY_NAMES)}`;
  throw new StoreError(`${what} is not supported`, `${remedy}; ${instead}`);
}

function malformed(): never {
  throw new StoreError('the database URL is not valid', URL_HINT);
}
