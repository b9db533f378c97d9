import { StoreError } from '../../errors.ts';
import { type ConnectionParameters, type ParameterName, toParameterName } from './connection-parameters.ts';

export const URL_HINT =
  'write postgres://user@host:5432/database, and percent-encode special characters: @ as %40, / as %2F, % as %25, = in a parameter as %3D';

const isSecret = (name: ParameterName): boolean => name === 'password' || name === 'sslpassword';

/**
 * Parses a URL as libpq does. No error message contains text that may belong to a password.
 *
 * @see https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
 * @throws StoreError
 */
export function parseDatabaseUrl(text: string): ConnectionParameters {
  const rest = /^postgres(?:ql)?:\/\/(.*)$/s.exec(text)?.[1] ?? malformed();
  const userInfo = /^([^@/]*)@/.exec(rest)?.[1];
  const address = userInfo === undefined ? rest : rest.slice(userInfo.length + 1);
  // Another @ comes from a password that is not encoded. If it were accepted, as libpq does, a part of the password
  // would become the host, the database or a parameter, and would be printed.
  if (address.includes('@')) malformed();
  const parts = /^(\[[^\]]+\]|[^:/?[\]]*)(?::([^/?]*))?(?:\/([^?]*))?(?:\?(.*))?$/s.exec(address);
  if (!parts) return malformed();
  const [, host = '', port, database, query = ''] = parts;
  const [, user, password] = /^([^:]*)(?::(.*))?$/s.exec(userInfo ?? '') ?? [];
  const named: Pair[] = [
    ['user', user],
    ['password', password],
    ['host', host.replace(/^\[(.*)\]$/s, '$1')],
    ['port', port],
    ['dbname', database],
  ];
  const pairs = [...named.filter(([, value]) => value), ...queryPairs(query)];
  return Object.fromEntries(pairs.map(([name, value = '']) => [name, decode(value)]));
}

/** A parameter and its encoded value. */
type Pair = [name: ParameterName, value: string | undefined];

function queryPairs(query: string): Pair[] {
  const pairs: Pair[] = [];
  for (const pair of query.split('&').filter(Boolean)) {
    const [name = '', value, ...others] = pair.split('=');
    if (value === undefined || others.length > 0) malformed();
    // A name after a password may be a part of the password, if that contains an & that is not encoded.
    const isShown = !pairs.some(([each]) => isSecret(each));
    // As in libpq, ssl=true is for URLs that were written for JDBC.
    if (name === 'ssl' && value === 'true') pairs.push(['sslmode', 'require']);
    else pairs.push([toParameterName(decode(name), isShown), value]);
  }
  return pairs;
}

function decode(text: string): string {
  try {
    const decoded = decodeURIComponent(text);
    if (!decoded.includes('\0')) return decoded;
  } catch {
    // The error would contain the text.
  }
  return malformed();
}

function malformed(): never {
  throw new StoreError('the database URL is not valid', URL_HINT);
}

/** The URL of the parameters, without passwords. Empty parameters are omitted. */
export function formatDatabaseUrl(parameters: ConnectionParameters): string {
  const { host = '', port, user = '', dbname = '', password: _, sslpassword: __, ...others } = parameters;
  const isPath = host.startsWith('/');
  const name = host.includes(':') ? `[${encode(host)}]` : encode(host);
  const query = Object.entries({ ...(isPath && { host }), ...others })
    .filter(([, value]) => value)
    .map(([key, value]) => `${key}=${encode(value)}`)
    .join('&');
  const authority = `${encode(user)}@${isPath ? '' : name}${port ? `:${port}` : ''}`;
  return `postgres://${authority}/${encode(dbname)}${query && `?${query}`}`;
}

/** Slashes and colons are left, because they make paths and IPv6 addresses readable. */
const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll('%2F', '/').replaceAll('%3A', ':');
