import pgpass from 'pgpass/lib/helper.js';
import { LOOPBACK_NAME_PATTERN } from '../../../contract/headers.ts';
import type { LocationContext } from '../../backend.ts';
import { StoreError } from '../../errors.ts';

// Reads the URL of a database like libpq, but refuses every parameter and value that pets does not support. A part of a
// password must never become a host, a database or a message, even if the user has not percent-encoded it.

/** A database that a user has named. */
export type DatabaseTarget = {
  /** The URL of the same database without its password. A user can use it as --data. */
  place: string;
  /** False if connections go through a pooler that does not support named prepared statements. */
  prepare: boolean;
  user: string;
  database: string;
  hosts: readonly [DatabaseHost, ...DatabaseHost[]];
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

export type SslMode = (typeof SSL_MODES)[number];

/**
 * The parameters of a connection, each with its environment variable. All except `prepare` are parameters of libpq.
 *
 * @see https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
 */
const VARIABLES = {
  host: 'PGHOST',
  port: 'PGPORT',
  dbname: 'PGDATABASE',
  user: 'PGUSER',
  password: 'PGPASSWORD',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  application_name: 'PGAPPNAME',
  options: 'PGOPTIONS',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
  prepare: undefined,
} as const;

type ParameterName = keyof typeof VARIABLES;
type ConnectionParameters = Partial<Record<ParameterName, string>>;

const PARAMETER_NAMES = Object.keys(VARIABLES) as ParameterName[];

const VALUES: Partial<Record<ParameterName, readonly string[]>> = {
  sslmode: SSL_MODES,
  // Both have the same meaning, because pets only uses a server that accepts writes.
  target_session_attrs: ['read-write', 'primary'],
  prepare: ['on', 'off'],
};

/** Variables of libpq that choose another server or demand more security. Ignoring one would be dangerous. */
const UNSUPPORTED_VARIABLES = [
  'PGSERVICE',
  'PGHOSTADDR',
  'PGREQUIREAUTH',
  'PGREQUIREPEER',
  'PGREQUIRESSL',
  'PGCHANNELBINDING',
  'PGGSSENCMODE',
  'PGSSLCERTMODE',
  'PGSSLCRL',
  'PGSSLCRLDIR',
  'PGSSLMINPROTOCOLVERSION',
];

/** The parameters that can follow the `?` of a database URL. */
const QUERY_NAMES = PARAMETER_NAMES.filter((name) => !['user', 'password', 'port', 'dbname'].includes(name));

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
  const given = { ...parseEnvironment(env), ...parseUrl(url) };
  for (const name of PARAMETER_NAMES) {
    const [value, allowed] = [given[name], VALUES[name]];
    if (value !== undefined && allowed && !allowed.includes(value))
      throw new StoreError(`the value of ${sourceOf(name)} is not supported`, `use ${listOf(allowed)}`);
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
  const unsupported = UNSUPPORTED_VARIABLES.find((name) => env[name]);
  if (unsupported !== undefined) {
    throw new StoreError(
      `the environment variable ${unsupported} is not supported`,
      `unset it; the part of the database URL after the ? can contain ${listOf(QUERY_NAMES)}`,
    );
  }
  const parameters: ConnectionParameters = {};
  for (const name of PARAMETER_NAMES) {
    const variable = VARIABLES[name];
    const value = variable && env[variable];
    if (value) parameters[name] = value;
  }
  return parameters;
}

/** The parts of a URL: user, password, hosts, database and query. */
const PARTS = /^postgres(?:ql)?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^@/?]*)(?:\/([^@?]*))?(?:\?([^@]*))?$/s;

/**
 * Parses a URL. Refuses an additional @, because it comes from a password that is not encoded. libpq accepts it, and
 * uses a part of the password as the host, the database or a parameter. Then, that part would be printed.
 */
function parseUrl(text: string): ConnectionParameters {
  const [, user, password, authority = '', dbname, query = ''] = PARTS.exec(text) ?? malformed();
  const hosts = authority
    .split(',')
    .map((each) => /^(?:\[([^[\]]+)\]|([^:[\]]*))(?::(.*))?$/s.exec(each) ?? malformed());
  const ports = hosts.map(([, , , port = '']) => port);
  const named = {
    user,
    password,
    host: hosts.map(([, bracketed, name]) => bracketed ?? name).join(','),
    port: ports.some(Boolean) ? ports.join(',') : '',
    dbname,
  };
  const pairs = Object.entries(named).filter(([, value]) => value);
  const all = [...pairs, ...parseQuery(query)];
  return Object.fromEntries(all.map(([name, value = '']) => [name, decode(value)]));
}

function parseQuery(query: string): [name: ParameterName, value: string][] {
  const pairs = query.split('&').filter(Boolean);
  return pairs.map((pair) => {
    const [encodedName = '', value, ...others] = pair.split('=');
    if (value === undefined || others.length > 0) malformed();
    const name = decode(encodedName);
    const known = QUERY_NAMES.find((each) => each === name);
    if (known !== undefined) return [known, value];
    throw new StoreError(
      `${/^\w{1,40}$/.test(name) ? `the parameter ${name}` : 'a parameter'} of the database URL is not supported`,
      `remove it; the part after the ? can contain ${listOf(QUERY_NAMES)}`,
    );
  });
}

/** As in libpq, there is one port for each host, or one for all. */
function parseHosts({ host = '', port = '', sslmode }: ConnectionParameters): DatabaseTarget['hosts'] {
  const names = host.split(',');
  const ports = port.split(',');
  if (ports.length !== 1 && ports.length !== names.length)
    throw new StoreError(
      'the numbers of hosts and ports of the database differ',
      'in the URL, or in PGHOST and PGPORT, give one port for each host, or one for all',
    );
  const [first, ...others] = names.map((text, i): DatabaseHost => {
    const name = text || 'localhost';
    const isSocket = name.startsWith('/');
    const isLocal = isSocket || LOOPBACK_NAME_PATTERN.test(name.includes(':') ? `[${name}]` : name);
    return {
      name,
      port: parsePort(ports[i] ?? ports[0]),
      sslmode: isSocket ? 'disable' : ((sslmode as SslMode) ?? (isLocal ? 'disable' : 'require')),
    };
  });
  return first ? [first, ...others] : malformed();
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
  const others = QUERY_NAMES.filter((name) => parameters[name] && name !== 'host');
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

/** A parameter and the variable that may have set it, for messages. */
const sourceOf = (name: ParameterName): string =>
  VARIABLES[name] ? `${name} (or ${VARIABLES[name]})` : name;

const listOf = (names: readonly string[]): string => `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;

function malformed(): never {
  throw new StoreError('the database URL is not valid', URL_HINT);
}
