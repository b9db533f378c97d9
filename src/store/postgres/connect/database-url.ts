import { LOOPBACK_NAME_PATTERN } from '../../../contract/headers.ts';
import type { LocationContext } from '../../backend.ts';
import { StoreError } from '../../errors.ts';

// Reads the URL of a database like libpq, with the parameters that pets supports. A part of a password must never become
// a host, a database or a message, even if the user has not percent-encoded it.

/** A database that a user has named. */
export type DatabaseTarget = {
  /** The URL without its password. */
  place: string;
  /** False if connections go through a pooler that does not support named prepared statements. */
  prepare: boolean;
  user: string;
  database: string;
  /** The password of the URL or in `PGPASSWORD`. */
  password: string | undefined;
  hosts: readonly DatabaseHost[];
  parameters: ConnectionParameters;
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
 * The parameters that can follow the `?` of a database URL. All except `prepare` are parameters of libpq.
 *
 * @see https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
 */
const PARAMETER_NAMES = [
  'host',
  'port',
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'channel_binding',
  'application_name',
  'options',
  'prepare',
] as const;

type ParameterName = (typeof PARAMETER_NAMES)[number];
type ConnectionParameters = Partial<Record<ParameterName, string>>;

const VALUES: Partial<Record<ParameterName, readonly string[]>> = {
  sslmode: SSL_MODES,
  channel_binding: ['disable', 'prefer', 'require'],
  prepare: ['on', 'off'],
};

/**
 * Parameters of libpq that neither choose a server nor protect the connection, or not with these values: pets only uses
 * a server that accepts writes. They have no effect.
 */
const IGNORED =
  /^((connect_timeout|keepalives(_idle|_interval|_count)?|tcp_user_timeout|client_encoding|fallback_application_name|sslcompression|sslsni|load_balance_hosts)=.*|target_session_attrs=(read-write|primary)|gssencmode=(disable|prefer))$/s;

/** Variables of libpq that choose another server or demand more security. Ignoring one would be dangerous. */
const UNREAD_VARIABLES =
  /^PG(SERVICE|HOSTADDR|CHANNELBINDING|REQUIRE(AUTH|PEER|SSL)|SSL(MODE|ROOTCERT|CERT|KEY|CERTMODE|CRL|CRLDIR|MINPROTOCOLVERSION))$/;

const DEFAULT_PORT = 5432;

const URL_HINT =
  'write postgres://user@host:5432/database, and percent-encode special characters: @ as %40, / as %2F, % as %25, = in a parameter as %3D';

/** The parts of a URL: user, password, hosts, database and query. */
const PARTS = /^postgres(?:ql)?:\/\/(?:([^:@/]*)(:[^@/]*)?@)?([^@/?]*)(?:\/([^@?]*))?(?:\?([^@]*))?$/is;

/**
 * Parses a database URL. Refuses an additional @, because it comes from a password that is not encoded. libpq accepts
 * it, and uses a part of the password as the host, the database or a parameter. Then, that part would be printed.
 *
 * @throws StoreError, whose message contains no part of a password
 */
export function parseDatabaseTarget(
  url: string,
  { env, userName }: Pick<LocationContext, 'env' | 'userName'>,
): DatabaseTarget {
  const [, userPart = '', passwordPart = '', authority = '', databasePart = '', query = ''] =
    PARTS.exec(url) ?? malformed();
  const parameters = parseQuery(query);
  requireNoVariable(env, parameters);
  const user = decode(userPart) || userName;
  if (!user) throw new StoreError('the database URL contains no user', URL_HINT);
  return {
    place: url.replace(`${passwordPart}@`, '@'),
    prepare: parameters.prepare !== 'off',
    user,
    database: decode(databasePart) || user,
    password: decode(passwordPart.slice(1)) || env['PGPASSWORD'] || undefined,
    hosts: parseHosts(authority, parameters),
    parameters,
  };
}

function parseQuery(query: string): ConnectionParameters {
  const parameters: ConnectionParameters = {};
  for (const pair of query.split('&').filter(Boolean)) {
    const [name = '', value, ...others] = pair.split('=').map(decode);
    if (value === undefined || others.length > 0) malformed();
    if (IGNORED.test(`${name}=${value}`)) continue;
    const known = PARAMETER_NAMES.find((each) => each === name) ?? refuseParameter(name);
    const allowed = VALUES[known];
    if (allowed && !allowed.includes(value))
      throw new StoreError(
        `the value of ${name} in the database URL is not supported`,
        `use ${listOf(allowed)}`,
      );
    if (value) parameters[known] = value;
  }
  if (parameters.sslmode === 'verify-ca' && !parameters.sslrootcert) {
    throw new StoreError(
      'sslmode=verify-ca needs sslrootcert, the certificate of the authority',
      'set sslrootcert to the path of that file; or use sslmode=verify-full if a public authority has issued the certificate of the server',
    );
  }
  return parameters;
}

function refuseParameter(name: string): never {
  const what = /^\w{1,40}$/.test(name) ? `the parameter ${name}` : 'a parameter';
  throw new StoreError(
    `${what} of the database URL is not supported`,
    `remove it; the part of the URL after the ? can contain ${listOf(PARAMETER_NAMES)}`,
  );
}

/** Refuses a variable of libpq that would demand something else than the URL, which is not read. */
function requireNoVariable(env: LocationContext['env'], parameters: ConnectionParameters): void {
  const given = Object.keys(parameters).map((name) => `PG${name.replace('_', '').toUpperCase()}`);
  const unread = Object.keys(env).find(
    (name) => env[name] && UNREAD_VARIABLES.test(name) && !given.includes(name),
  );
  if (unread)
    throw new StoreError(
      `the environment variable ${unread} is not supported`,
      'put what it says into the database URL, or unset it',
    );
}

/** The hosts before the query, or else in the parameter `host`. As in libpq, a single port is that of all hosts. */
function parseHosts(authority: string, { host, port, sslmode }: ConnectionParameters): DatabaseHost[] {
  const named = authority
    .split(',')
    .map((each) => /^(?:\[([^[\]]+)\]|([^:[\]]*))(?::(.*))?$/s.exec(each) ?? malformed());
  const names = host?.split(',') ?? named.map(([, bracketed, name = '']) => decode(bracketed ?? name));
  const ports = port?.split(',') ?? named.map(([, , , each = '']) => each);
  if (ports.length !== 1 && ports.length !== names.length)
    throw new StoreError(
      'the numbers of hosts and ports of the database differ',
      'give one port for each host, or one for all',
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
    throw new StoreError('the port of the database must be a number from 1 to 65535', URL_HINT);
  return port;
}

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

function malformed(): never {
  throw new StoreError('the database URL is not valid', URL_HINT);
}
