import { StoreError } from '../../errors.ts';

/**
 * The parameters of a database URL, each with its environment variable. All except `prepare` are parameters of libpq and
 * have the same meaning, except that `connect_timeout` has no effect.
 *
 * @see https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
 */
const VARIABLES = {
  host: 'PGHOST',
  port: 'PGPORT',
  dbname: 'PGDATABASE',
  user: 'PGUSER',
  password: 'PGPASSWORD',
  passfile: 'PGPASSFILE',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  sslpassword: undefined,
  channel_binding: 'PGCHANNELBINDING',
  gssencmode: 'PGGSSENCMODE',
  application_name: 'PGAPPNAME',
  connect_timeout: 'PGCONNECT_TIMEOUT',
  options: 'PGOPTIONS',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
  prepare: undefined,
} as const;

export type ParameterName = keyof typeof VARIABLES;
export type ConnectionParameters = Partial<Record<ParameterName, string>>;
export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

export const PARAMETER_NAMES = Object.keys(VARIABLES) as ParameterName[];

export const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;

export type SslMode = (typeof SSL_MODES)[number];

/** The value of sslrootcert that stands for the authorities that Node trusts, instead of a file. */
export const SYSTEM_AUTHORITIES = 'system';

const ALLOWED: Partial<Record<ParameterName, readonly string[]>> = {
  sslmode: SSL_MODES,
  channel_binding: ['disable', 'prefer', 'require'],
  // The driver does not support GSSAPI, which is optional by default.
  gssencmode: ['disable', 'prefer'],
  target_session_attrs: ['any', 'read-write'],
  prepare: ['on', 'off'],
};

/** Variables of libpq that choose another database or demand more security. Ignoring one would be dangerous. */
const UNSUPPORTED_VARIABLES = [
  'PGSERVICE',
  'PGHOSTADDR',
  'PGREQUIREPEER',
  'PGREQUIREAUTH',
  'PGSSLCRL',
  'PGSSLCRLDIR',
  'PGSSLMINPROTOCOLVERSION',
];

/** @throws StoreError if a variable is set that pets does not support */
export function parametersFromEnvironment(env: EnvironmentVariables): ConnectionParameters {
  const unsupported = UNSUPPORTED_VARIABLES.find((name) => env[name]);
  if (unsupported !== undefined) {
    throw new StoreError(
      `the environment variable ${unsupported} is not supported`,
      'unset it, and put the settings into the database URL',
    );
  }
  const parameters: ConnectionParameters = {};
  for (const name of PARAMETER_NAMES) {
    const variable = VARIABLES[name];
    const value = variable && env[variable];
    if (value !== undefined) parameters[name] = value;
  }
  return parameters;
}

/** @throws StoreError if a parameter does not have one of its values */
export function checkParameters(parameters: ConnectionParameters): void {
  for (const name of PARAMETER_NAMES) {
    const value = parameters[name];
    const allowed = ALLOWED[name];
    if (value !== undefined && allowed && !allowed.includes(value)) {
      throw new StoreError(`the value of ${sourceOf(name)} is not supported`, `use ${listOf(allowed)}`);
    }
  }
}

/** A parameter and the variable that may have set it, for messages. */
export function sourceOf(name: ParameterName): string {
  const variable = VARIABLES[name];
  return variable ? `${name} (or ${variable})` : name;
}

/**
 * @param isShown whether the name may be printed
 * @throws StoreError if pets does not support the parameter
 */
export function toParameterName(name: string, isShown: boolean): ParameterName {
  const known = PARAMETER_NAMES.find((each) => each === name);
  if (known) return known;
  if (name === 'service') {
    throw new StoreError(
      'the parameter service of the database URL is not supported',
      'put the settings of the service into the URL',
    );
  }
  const similar = PARAMETER_NAMES.find((each) => isSimilar(name, each));
  const hint = similar ? `did you mean ${similar}?` : `use ${listOf(PARAMETER_NAMES)}`;
  const shown = isShown && /^[\w-]{1,40}$/.test(name) ? `the parameter ${name}` : 'a parameter';
  throw new StoreError(`${shown} of the database URL is not supported`, hint);
}

const listOf = (names: readonly string[]): string => `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;

/** Whether the names differ only in upper case and separators, or in at most two letters. */
function isSimilar(name: string, known: string): boolean {
  const plain = (text: string): string => text.toLowerCase().replace(/[_-]/g, '');
  return editDistance(plain(name), plain(known)) <= 2;
}

/** The number of letters to add, remove or replace (the Levenshtein distance). */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (const [i, letter] of [...a].entries()) {
    const row = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const replaced = (previous[j] ?? 0) + (letter === b[j] ? 0 : 1);
      row.push(Math.min(replaced, (previous[j + 1] ?? 0) + 1, (row[j] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
