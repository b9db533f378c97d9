import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import { Client, type ClientConfig } from 'pg';
import pgpass from 'pgpass/lib/index.js';
import { LOOPBACK_NAME_PATTERN } from '../../contract/headers.ts';
import { errnoOf } from '../../system/file-system.ts';
import type { LocationContext } from '../backend.ts';
import { StoreError, StoreUnavailableError } from '../errors.ts';
import { messageOf } from './failures.ts';

// Reads the URL of a database like libpq, with the parameters that pets supports, and connects to the server that accepts
// writes. No part of a password may become a host, a database or a message, even if it is not percent-encoded.

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
 * The parameters of a database URL that have an effect. All except `prepare` are parameters of libpq.
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
 * Parameters of libpq that are ignored. They do not protect the connection, or not with these values, and choose no other
 * server: pets always uses one that accepts writes.
 */
const IGNORED =
  /^((connect_timeout|keepalives(_idle|_interval|_count)?|tcp_user_timeout|client_encoding|fallback_application_name|sslcompression|sslsni|load_balance_hosts)=.*|target_session_attrs=(read-write|primary)|gssencmode=(disable|prefer))$/s;

/** Variables of libpq that could lead to another server than the host in the URL, or change how connections are secured. */
const UNREAD_VARIABLES =
  /^PG(SERVICE|HOSTADDR|CHANNELBINDING|REQUIRE(AUTH|PEER|SSL)|SSL(MODE|ROOTCERT|CERT|KEY|CERTMODE|CRL|CRLDIR|MINPROTOCOLVERSION))$/;

const DEFAULT_PORT = 5432;

const URL_HINT =
  'write postgres://user@host:5432/database, and percent-encode special characters: @ as %40, / as %2F, % as %25, = in a parameter as %3D';

/** The parts of a URL: user, password, hosts, database and query. */
const PARTS = /^postgres(?:ql)?:\/\/(?:([^:@/]*)(:[^@/]*)?@)?([^@/?]*)(?:\/([^@?]*))?(?:\?([^@]*))?$/is;

/**
 * Parses a database URL. Refuses an additional @, because the password may contain it without being encoded. libpq would
 * use a part of such a password as the host, the database or a parameter, and error messages would contain that part.
 *
 * @throws StoreError, whose message contains no part of a password
 */
export function parseDatabaseTarget(
  url: string,
  { env, userName }: Pick<LocationContext, 'env' | 'userName'>,
): DatabaseTarget {
  const [, userPart = '', passwordPart = '', authority = '', databasePart = '', query = ''] =
    PARTS.exec(url) ?? refuseUrl();
  const parameters = parseQuery(query);
  refuseUnreadVariable(env, parameters);
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
    if (value === undefined || others.length > 0) refuseUrl();
    if (IGNORED.test(`${name}=${value}`)) continue;
    const parameter = PARAMETER_NAMES.find((other) => other === name) ?? refuseParameter(name);
    const allowed = VALUES[parameter];
    if (allowed && !allowed.includes(value))
      throw new StoreError(
        `the value of ${name} in the database URL is not supported`,
        `use ${orList(allowed)}`,
      );
    if (value) parameters[parameter] = value;
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
    `remove it; the part of the URL after the ? can contain ${orList(PARAMETER_NAMES)}`,
  );
}

/** Refuses the variables in `UNREAD_VARIABLES`, unless the URL has the parameter with the same meaning. */
function refuseUnreadVariable(env: LocationContext['env'], parameters: ConnectionParameters): void {
  const given = Object.keys(parameters).map((name) => `PG${name.replace('_', '').toUpperCase()}`);
  const unread = Object.keys(env).find(
    (name) => env[name] && UNREAD_VARIABLES.test(name) && !given.includes(name),
  );
  if (unread)
    throw new StoreError(
      `the environment variable ${unread} is not supported`,
      `unset it; instead, the part of the database URL after the ? can contain ${orList(PARAMETER_NAMES)}`,
    );
}

/** The hosts in the parameter `host`, or else those before the query. As in libpq, a single port is that of all hosts. */
function parseHosts(authority: string, { host, port, sslmode }: ConnectionParameters): DatabaseHost[] {
  const named = authority
    .split(',')
    .map((text) => /^(?:\[([^[\]]+)\]|([^:[\]]*))(?::(.*))?$/s.exec(text) ?? refuseUrl());
  const names = host?.split(',') ?? named.map(([, bracketed, name = '']) => decode(bracketed ?? name));
  const ports = port?.split(',') ?? named.map(([, , , text = '']) => text);
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
  return refuseUrl();
}

const orList = (names: readonly string[]): string => `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;

function refuseUrl(): never {
  throw new StoreError('the database URL is not valid', URL_HINT);
}

type ConnectOptions = {
  /** The time limit for all attempts together, until one host is connected, in milliseconds. */
  timeout: number;
  /** Whether the connection is for the short calls of a running server. */
  isServer: boolean;
  /** If aborted, all attempts that have not succeeded end. */
  signal?: AbortSignal | undefined;
};

/**
 * How long to wait for the other hosts when a server accepts writes, because it may be an old primary server. A host
 * that does not respond delays each new connection by this time.
 */
const WAIT_FOR_OTHERS_MS = 300;

/**
 * Limits for the short calls of pets serve, in milliseconds. PostgreSQL gives up before pets serve does, so that the
 * outcome is known. A large result holds the locks of its call until it is read. If the process does not read, for
 * example because it was suspended, PostgreSQL ends the connection.
 *
 * pgbouncer would reject the limits, or give the changed connection to other clients. Through pgbouncer, the SQL
 * functions limit waits for locks, and ALTER ROLE can set the other limits.
 */
const LIMITS =
  '-c statement_timeout=1500 -c lock_timeout=1400 -c idle_in_transaction_session_timeout=5000 -c tcp_user_timeout=2000';

/** How long a connection is idle before TCP checks that the other side still exists. */
const KEEP_ALIVE_DELAY_MS = 10_000;

/**
 * Returns the SQL that reads a `ServerRow`. Function names contain the schema, because other schemas can have functions with
 * these names. Some hosted databases lack the functions for the timeline, which is needed only to choose between hosts.
 */
const serverRowSql = (hasOtherHosts: boolean) => `select
  pg_catalog.current_setting('transaction_read_only') as "readOnly",
  case when ${hasOtherHosts} and not pg_catalog.pg_is_in_recovery()
    then pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) end as "walFile"`;

type ServerRow = { readOnly: 'on' | 'off'; walFile: string | null };

/**
 * Opens connections to the server of a database that accepts writes. Asks all hosts at the same time. Each promotion of
 * a standby server starts a timeline with a higher number. So a server whose timeline is lower than the highest one is an
 * old primary server, which does not know of the promotion, and is not used.
 */
export class PrimaryConnector {
  readonly target: DatabaseTarget;
  /** The highest timeline of a server so far, and the open connections to servers with this timeline. */
  #timeline = 0;
  readonly #open = new Set<Client>();

  constructor(target: DatabaseTarget) {
    this.target = target;
  }

  /**
   * Opens a connection to a server that accepts writes: of those with the highest timeline, the first one in the URL. Ends
   * connections to an old primary server. Reads the files of certificates and passwords each time, because they can change.
   *
   * @throws StoreUnavailableError if no server accepts writes, StoreError if a setting cannot be used, a DatabaseError,
   * a system error, a TLS error, or another error of the driver
   */
  async connect({ timeout, isServer, signal }: ConnectOptions): Promise<Client> {
    const { hosts } = this.target;
    const configs = await Promise.all(hosts.map((host) => configOf(this.target, host, isServer)));
    const clients = configs.map((config) => new Client(config));
    /** The timeline of each server that accepts writes. */
    const timelines = new Map<Client, number>();
    const attempts = clients.map(async (client) => {
      if (this.target.parameters.channel_binding === 'require') requireChannelBinding(client);
      const timeline = await openPrimary(client, hosts.length > 1);
      if (timeline < this.#timeline) throw oldPrimaryError();
      timelines.set(client, timeline);
    });
    const endOthers = (isKept: (client: Client) => boolean, reason?: Error) => {
      for (const client of clients) if (!isKept(client)) client.connection.stream.destroy(reason);
    };
    const expire = () =>
      endOthers((client) => timelines.has(client), new Error('the server did not respond in time'));
    const timer = setTimeout(expire, timeout);
    signal?.addEventListener('abort', expire);
    try {
      await Promise.any(attempts);
      const all = Promise.allSettled(attempts);
      await Promise.race([all, sleep(WAIT_FOR_OTHERS_MS, undefined, { ref: false })]);
    } catch (error) {
      throw noPrimaryError(hosts, (error as AggregateError).errors);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', expire);
    }
    const highest = Math.max(this.#timeline, ...timelines.values());
    const best = clients.find((client) => timelines.get(client) === highest);
    endOthers((client) => client === best);
    if (!best) throw oldPrimaryError();
    if (highest > this.#timeline) for (const client of this.#open) client.connection.stream.destroy();
    this.#timeline = highest;
    this.#open.add(best);
    best.once('end', () => this.#open.delete(best));
    return best;
  }
}

/** Connects, and returns the timeline (0 for one host). @throws StoreError, or an error of the driver */
async function openPrimary(client: Client, hasOtherHosts: boolean): Promise<number> {
  // Without a listener, an error after the connection is made would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<ServerRow>(serverRowSql(hasOtherHosts));
    const { readOnly, walFile } = rows[0] as ServerRow;
    if (readOnly === 'on')
      throw unusableError(
        'the database is read-only: a standby server, or default_transaction_read_only is on',
        'use the primary server, or turn off default_transaction_read_only',
      );
    // The name of a WAL file starts with the timeline, in eight hexadecimal digits.
    return Number.parseInt((walFile ?? '0').slice(0, 8), 16);
  } catch (error) {
    // A graceful end would wait for a server that may not respond.
    client.connection.stream.destroy();
    if (!(error instanceof Error) || error.message !== 'The server does not support SSL connections')
      throw error;
    const hint =
      'set ssl = on in PostgreSQL, or, if no one else can read the network traffic, add sslmode=disable to the URL';
    throw unusableError('the server does not support TLS', hint);
  }
}

/** Ends the connection before it sends a password, unless the server offers SCRAM with channel binding. */
function requireChannelBinding({ connection }: Client): void {
  let isOffered = false;
  const check = ({ mechanisms = [] }: { mechanisms?: string[] }) => {
    isOffered ||= mechanisms.includes('SCRAM-SHA-256-PLUS');
    if (isOffered) return;
    const hint = 'use TLS and scram-sha-256, or channel_binding=prefer';
    connection.emit('error', unusableError('the server does not offer channel binding', hint));
    connection.stream.destroy();
  };
  const methods = ['CleartextPassword', 'MD5Password', 'SASL', 'Ok'];
  for (const method of methods) connection.on(`authentication${method}`, check);
}

const unusableError = (message: string, hint: string): StoreUnavailableError =>
  new StoreUnavailableError(message, hint, { outcome: 'not_done' });

const oldPrimaryError = (): StoreUnavailableError =>
  unusableError('it is an old primary server, because another one was promoted later', 'stop the old server');

/** The error if no host can be used: that of the only host, or one with the reasons of all. */
function noPrimaryError(hosts: readonly DatabaseHost[], errors: readonly unknown[]): unknown {
  if (hosts.length === 1) return errors[0];
  const reasons = hosts.map((host, i) => `${host.name}:${host.port}: ${messageOf(errors[i])}`);
  return new StoreUnavailableError(
    `no server accepts writes (${reasons.join('; ')})`,
    'fix one of these reasons; one of the servers must be a primary server that is running',
    { cause: new AggregateError(errors), outcome: 'not_done' },
  );
}

/**
 * Returns even defaults, because the driver would take missing settings from environment variables such as PGHOST. If
 * `options` is empty, the driver still uses PGOPTIONS.
 */
async function configOf(
  { user, database, password, parameters, prepare }: DatabaseTarget,
  { name: host, port, sslmode }: DatabaseHost,
  isServer: boolean,
): Promise<ClientConfig> {
  const isEncrypted = sslmode !== 'disable';
  return {
    host,
    port,
    user,
    database,
    // A function, so that the password is not printed with the settings, and a file is read only if it is needed.
    password: async () => password ?? (await readPassword({ host, port, database, user })),
    application_name: parameters.application_name || 'pets',
    options: [parameters.options, isServer && prepare && LIMITS].filter(Boolean).join(' '),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    sslnegotiation: 'postgres',
    enableChannelBinding: isEncrypted && parameters.channel_binding !== 'disable',
    ssl: isEncrypted && (await tlsOptions(sslmode, parameters)),
  };
}

/** As in libpq: verify-full verifies certificate and host name, other modes the certificate if `sslrootcert` is set. */
async function tlsOptions(
  sslmode: DatabaseHost['sslmode'],
  { sslrootcert, sslcert, sslkey }: DatabaseTarget['parameters'],
): Promise<ClientConfig['ssl']> {
  const [ca, cert, key] = await Promise.all([sslrootcert, sslcert, sslkey].map(readNamedFile));
  try {
    return {
      secureContext: createSecureContext({ ca, cert, key }),
      rejectUnauthorized: sslmode === 'verify-full' || ca !== undefined,
      ...(sslmode !== 'verify-full' && { checkServerIdentity: () => undefined }),
    };
  } catch (error) {
    throw new StoreError(
      `cannot use sslrootcert, sslcert or sslkey: ${messageOf(error)}`,
      'use files in the PEM format; the private key must belong to the certificate, and have no passphrase',
    );
  }
}

async function readNamedFile(path: string | undefined): Promise<string | undefined> {
  try {
    return path && (await readFile(path, 'utf8'));
  } catch (error) {
    throw new StoreError(
      `cannot read ${path} (${errnoOf(error)})`,
      'check sslrootcert, sslcert and sslkey in the database URL',
    );
  }
}

async function readPassword(connection: Parameters<typeof pgpass>[0]): Promise<string> {
  const password = await new Promise<string | undefined>((resolve) => pgpass(connection, resolve));
  if (password) return password;
  throw new StoreError(
    `the database asks for a password of the user ${connection.user}, and none is set`,
    'set PGPASSWORD, or add the password to ~/.pgpass, which is ignored unless its mode is 600',
  );
}
