import { API_KEY_PATTERN } from '../../contract/headers.ts';
import { CliError, usageError } from '../errors/cli-error.ts';
import { isLoopback, type Profile, type ProfileName, parseBaseUrl, profileNames } from './profile.ts';

/** Where what was asked for comes from: flags, the environment, and the files. */
export type Sources = {
  flags: { profile?: ProfileName | undefined; baseUrl?: string | undefined };
  env: Readonly<Record<string, string | undefined>>;
  defaultProfile: ProfileName | undefined;
  readProfile(name: ProfileName): Profile | undefined;
};

export type Connection = {
  profile: ProfileName;
  baseUrl: string;
  key: string;
  keySource: KeySource;
};

/** Where the key was found, in words. */
export type KeySource = 'PETS_API_KEY' | 'this login' | `profile ${ProfileName}`;

export type Resolved = { connection: Connection; notices: string[] };

/** The profile that a command means: `--profile`, then PETS_PROFILE, then the default, then prod. */
export function chooseProfile({ flags, env, defaultProfile }: Omit<Sources, 'readProfile'>): ProfileName {
  const fromEnv = env['PETS_PROFILE'] || undefined;
  if (flags.profile !== undefined) return flags.profile;
  if (fromEnv === undefined) return defaultProfile ?? 'prod';
  const known = profileNames.find((name) => name === fromEnv);
  if (known === undefined) {
    throw usageError(
      `PETS_PROFILE must be one of ${profileNames.join(', ')}, not ${JSON.stringify(fromEnv)}`,
    );
  }
  return known;
}

/**
 * Decides which key goes to which server (design 2). A key and its origin stay together: no combination of flags,
 * environment and files sends a key anywhere but where it belongs.
 *
 * @throws CliError exit 4 without a key, exit 2 for a combination that would move a key
 */
export function resolveConnection(sources: Sources): Resolved {
  const { flags, env } = sources;
  const profile = chooseProfile(sources);
  const stored = sources.readProfile(profile);
  const isNamed = flags.profile !== undefined;
  // A secret of a CI service often ends with a line end.
  const envKey = isNamed ? undefined : env['PETS_API_KEY']?.replace(/[\r\n]+$/, '') || undefined;
  const envUrl = isNamed ? undefined : env['PETS_BASE_URL'] || undefined;
  const flagUrl = flags.baseUrl === undefined ? undefined : checkUrl(flags.baseUrl, '--base-url');
  const environmentUrl = envUrl && checkUrl(envUrl, 'PETS_BASE_URL');

  const [key, home, keySource]: [string | undefined, string | undefined, KeySource] = envKey
    ? [envKey, environmentUrl || stored?.baseUrl, 'PETS_API_KEY']
    : [stored?.key, stored?.baseUrl, `profile ${profile}`];
  const baseUrl = flagUrl || environmentUrl || stored?.baseUrl;
  if (key === undefined) throw noKey(profile, { isNamed, isNew: stored === undefined, environmentUrl });
  if (!API_KEY_PATTERN.test(key)) {
    throw new CliError(`the key in ${keySource} has characters that no key has`, {
      code: 'bad_key',
      hint: 'copy it again, without spaces or line ends',
    });
  }
  if (baseUrl === undefined) {
    throw usageError('no base URL is set for the key in PETS_API_KEY', 'set PETS_BASE_URL as well');
  }
  if (home !== undefined && !sameOrigin(home, baseUrl)) {
    throw otherOrigin({ keySource, home, baseUrl, profile, isEnvironment: flagUrl === undefined });
  }
  const isAllowed = stored?.allowHttp === true && sameOrigin(stored.baseUrl, baseUrl);
  checkProtocol(baseUrl, isAllowed || allowsHttp(env), profile);
  const notices = isNamed ? ignored(profile, env) : emptyKey(profile, env);
  return { connection: { profile, baseUrl, key, keySource }, notices };
}

/** @throws CliError exit 2 for what cannot be a base URL */
export function checkUrl(text: string, source: string): string {
  const url = parseBaseUrl(text);
  if (url === undefined) {
    throw usageError(
      `${source} must be an http(s) URL without user, query or fragment`,
      'such as https://api.example.com/v1',
    );
  }
  return url;
}

/** Whether the environment lets keys travel in clear text. */
export const allowsHttp = (env: Sources['env']): boolean => env['PETS_ALLOW_HTTP'] === '1';

/** @throws CliError exit 2 for a key that would travel in clear text to another machine */
export function checkProtocol(baseUrl: string, allowHttp: boolean, profile: ProfileName): void {
  const url = new URL(baseUrl);
  if (url.protocol === 'https:' || isLoopback(url) || allowHttp) return;
  throw usageError(
    `${url.origin} is not encrypted: the key would travel in clear text`,
    `use https, or allow it: pets login --profile ${profile} --base-url ${baseUrl} --allow-http`,
  );
}

const sameOrigin = (a: string, b: string): boolean => new URL(a).origin === new URL(b).origin;

/** A secret that a CI service does not have is an empty text there. */
const emptyKey = (profile: ProfileName, env: Sources['env']): string[] =>
  env['PETS_API_KEY'] === '' ? [`PETS_API_KEY is empty: the key of profile ${profile} is used`] : [];

function ignored(profile: ProfileName, env: Sources['env']): string[] {
  const names = ['PETS_API_KEY', 'PETS_BASE_URL'].filter((name) => env[name]);
  return names.length === 0 ? [] : [`--profile ${profile} is used: ${names.join(' and ')} ignored`];
}

type Keyless = {
  /** By --profile. */
  isNamed: boolean;
  /** Nobody has logged in yet. */
  isNew: boolean;
  environmentUrl: string | undefined;
};

function noKey(profile: ProfileName, { isNamed, isNew, environmentUrl }: Keyless): CliError {
  const error = (hint: string) =>
    new CliError(`no key is saved for profile ${profile}`, { code: 'no_key', hint });
  if (environmentUrl !== undefined)
    return error(`set PETS_API_KEY as well, to the key for ${environmentUrl}`);
  if (profile === 'local') return error('start the local service: pets serve --seed');
  const login = `log in: pets login${isNamed ? ` --profile ${profile}` : ''}`;
  // The first command on this machine: perhaps there is no service to log in to.
  return error(isNew ? `${login}; or try it with sample animals on this machine: pets serve --seed` : login);
}

function otherOrigin(where: {
  keySource: KeySource;
  home: string;
  baseUrl: string;
  profile: ProfileName;
  /** The other base URL is that of PETS_BASE_URL. */
  isEnvironment: boolean;
}): CliError {
  const [home, asked] = [new URL(where.home).origin, new URL(where.baseUrl).origin];
  return usageError(
    `the key in ${where.keySource} belongs to ${home} and is not sent to ${asked}`,
    hintFor(where),
  );
}

function hintFor({ keySource, isEnvironment, baseUrl, profile }: Parameters<typeof otherOrigin>[0]): string {
  if (keySource === 'PETS_API_KEY') return `set PETS_BASE_URL to ${baseUrl} if the key belongs there`;
  return isEnvironment
    ? 'set PETS_API_KEY to the key that belongs there, or unset PETS_BASE_URL'
    : `log in there: pets login --profile ${profile} --base-url ${baseUrl}`;
}

/** Where a command goes, as a person is told it: `api.example.com (profile prod)`. */
export const placeOf = ({ baseUrl, keySource }: Pick<Connection, 'baseUrl' | 'keySource'>): string =>
  `${new URL(baseUrl).host} (${keySource === 'PETS_API_KEY' ? 'key from PETS_API_KEY' : keySource})`;
