import { chmodSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { API_KEY_PATTERN, LOOPBACK_NAME_PATTERN } from '../../contract/headers.ts';
import { describeIssues, fieldError } from '../../contract/issues.ts';
import { makePrivateDirectory, realFileSystem } from '../../system/file-system.ts';
import { CliError, fileError, usageError } from '../core/errors.ts';
import { requireUtf8 } from '../core/input.ts';
import { configDirectory, configHint, type HomeContext } from './paths.ts';

export const profileNames = ['prod', 'staging', 'local'] as const;
export const ProfileName = z.enum(profileNames, { error: `must be one of ${profileNames.join(', ')}` });
export type ProfileName = z.infer<typeof ProfileName>;

/** The contents of a profile file. The key is only sent to the origin of the base URL. */
export const Profile = z.object(
  {
    baseUrl: z.string(fieldError('must be a string')).check(
      z.refine((text) => parseBaseUrl(text) !== undefined, {
        error: 'must be a valid http(s) URL without user, query or fragment',
      }),
    ),
    key: z.optional(
      z
        .string(fieldError('must be a string'))
        .check(z.regex(API_KEY_PATTERN, { error: 'must be visible ASCII characters' })),
    ),
  },
  fieldError('must be a JSON object'),
);
export type Profile = z.infer<typeof Profile>;

export const Settings = z.object(
  { defaultProfile: z.optional(ProfileName) },
  fieldError('must be a JSON object'),
);
export type Settings = z.infer<typeof Settings>;

/** The service and key that a command uses. The key is empty while `pets login` checks the base URL without a key. */
export type Connection = {
  profile: ProfileName;
  baseUrl: string;
  key: string;
  keySource: KeySource;
};

/** Where the key comes from, as shown in messages. */
export type KeySource = 'PETS_API_KEY' | 'this login' | `profile ${ProfileName}`;

/** The URL of a proxy, which may contain a user and password, and the environment variable with this URL. */
export type ProxySetting = { address: string; variable: string };

/** Host and port of a proxy, for messages. */
export function proxyLabel({ address }: ProxySetting): string {
  const url = new URL(address);
  return `${url.hostname}:${portOf(url)}`;
}

/** The port of an http(s) URL, or the default port of its protocol if the URL has none. */
export const portOf = ({ port, protocol }: URL): string => port || (protocol === 'https:' ? '443' : '80');

/** The port of `pets serve` without --port and without a command. */
export const DEFAULT_PORT = 7387;

/** The URL without trailing slashes; undefined if the text is not usable as a base URL. */
export function parseBaseUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  // `url.search` and `url.hash` are also empty after a bare `?` or `#`.
  const isPlain = url.username === '' && url.password === '' && !/[?#]/.test(text);
  if (!/^https?:$/.test(url.protocol) || !isPlain) return undefined;
  return url.href.replace(/\/+$/, '');
}

/** The base URL with https://, or with http:// for this machine; undefined if the text needs more than a scheme. */
function addScheme(text: string): string | undefined {
  const url = text.includes('://') ? undefined : parseBaseUrl(`https://${text}`);
  return url && isLoopbackUrl(new URL(url)) ? parseBaseUrl(`http://${text}`) : url;
}

/** Whether a URL refers to this machine. Plain http to another machine needs the permission of the user. */
export const isLoopbackUrl = (url: URL): boolean => LOOPBACK_NAME_PATTERN.test(url.hostname);

/** Where settings come from: flags, environment variables and files. */
export type Sources = {
  flags: { profile?: ProfileName | undefined; baseUrl?: string | undefined };
  env: Readonly<Record<string, string | undefined>>;
  defaultProfile: ProfileName | undefined;
  readProfile(name: ProfileName): Profile | undefined;
};

/** The profile set by `--profile`, or else by PETS_PROFILE, or else by `pets use`, or else prod. @throws CliError */
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
 * Decides which key to send to which service. A key is only sent to the origin that it was set or saved for, whatever
 * the combination of flags, environment variables and files. `notices` name the variables that were ignored.
 *
 * @throws CliError with exit code 4 if there is no valid key, and 2 if the key must not be sent to the base URL, or
 *   if a setting is missing or invalid
 */
export function resolveConnection(sources: Sources): { connection: Connection; notices: string[] } {
  const { flags, env } = sources;
  const profile = chooseProfile(sources);
  const stored = sources.readProfile(profile);
  const isNamed = flags.profile !== undefined;
  // Secrets of CI systems often end with a line break.
  const envKey = isNamed ? undefined : env['PETS_API_KEY']?.replace(/[\r\n]+$/, '') || undefined;
  const envUrl = isNamed ? undefined : env['PETS_BASE_URL'] || undefined;
  const flagUrl = flags.baseUrl === undefined ? undefined : checkUrl(flags.baseUrl, '--base-url');
  const environmentUrl = envUrl && checkUrl(envUrl, 'PETS_BASE_URL');

  const [key, home, keySource]: [string | undefined, string | undefined, KeySource] = envKey
    ? [envKey, environmentUrl || stored?.baseUrl, 'PETS_API_KEY']
    : [stored?.key, stored?.baseUrl, `profile ${profile}`];
  const baseUrl = flagUrl || environmentUrl || stored?.baseUrl;
  if (key === undefined) throw noKey(sources, profile, environmentUrl);
  if (!API_KEY_PATTERN.test(key)) {
    throw new CliError(`the key in ${keySource} contains invalid characters`, {
      code: 'bad_key',
      hint: 'set or save the key again, without spaces and line breaks',
    });
  }
  if (baseUrl === undefined) {
    throw usageError(
      'no base URL for the key in PETS_API_KEY',
      'set PETS_BASE_URL to the base URL of the service',
    );
  }
  if (home !== undefined && !sameOrigin(home, baseUrl)) {
    throw otherOrigin({ profile, baseUrl, keySource }, home, flagUrl === undefined);
  }
  checkProtocol(baseUrl, env);
  const notices = ignoredVariables(env, profile, isNamed);
  return { connection: { profile, baseUrl, key, keySource }, notices };
}

/** Normalizes a base URL. `source` names the setting in the error. @throws CliError if the URL is invalid */
export function checkUrl(text: string, source: string): string {
  const url = parseBaseUrl(text);
  if (url !== undefined) return url;
  const withScheme = addScheme(text);
  if (withScheme !== undefined)
    throw usageError(`${source} must start with https:// or http://`, `did you mean ${withScheme}?`);
  throw usageError(
    `${source} must be a valid http(s) URL without user, query or fragment`,
    'for example https://api.example.com/v1',
  );
}

/** @throws CliError with exit code 2 if the key would be sent unencrypted to another machine without permission */
export function checkProtocol(baseUrl: string, env: Sources['env']): void {
  const url = new URL(baseUrl);
  if (url.protocol === 'https:' || isLoopbackUrl(url) || env['PETS_ALLOW_HTTP'] === '1') return;
  throw usageError(
    `${url.origin} does not use https: the key would be sent unencrypted`,
    'use https, or set PETS_ALLOW_HTTP=1 if you trust the network',
  );
}

const sameOrigin = (a: string, b: string): boolean => new URL(a).origin === new URL(b).origin;

/** Notices about environment variables that are ignored. */
function ignoredVariables(env: Sources['env'], profile: ProfileName, isNamed: boolean): string[] {
  // CI systems set the variable of a missing secret to an empty string.
  if (!isNamed)
    return env['PETS_API_KEY'] === '' ? [`PETS_API_KEY is empty; using the key of profile ${profile}`] : [];
  const names = ['PETS_API_KEY', 'PETS_BASE_URL'].filter((name) => env[name]);
  return names.length === 0 ? [] : [`--profile ${profile} overrides ${names.join(' and ')}`];
}

function noKey(sources: Sources, profile: ProfileName, environmentUrl: string | undefined): CliError {
  const isNamed = sources.flags.profile !== undefined;
  // With --profile, the variables are ignored.
  const script = isNamed ? '' : '; in a script, set PETS_BASE_URL and PETS_API_KEY';
  const login = `log in: pets login${isNamed ? ` --profile ${profile}` : ''}`;
  const [only, ...more] = profilesWithKey(sources);
  let hint = login + script;
  if (profile === 'local') hint = 'start the local service, which saves a key: pets serve --seed';
  else if (environmentUrl !== undefined) hint = `set PETS_API_KEY to the key for ${environmentUrl}`;
  else if (!isNamed && only !== undefined && more.length === 0)
    hint = `to use profile ${only}: pets use ${only}. Or ${login}${script}`;
  // If the profile was never saved, the user may be new and have no service yet.
  else if (sources.readProfile(profile) === undefined)
    hint = `${login}. Or start a local service with sample animals: pets serve --seed${script}`;
  const missing = environmentUrl === undefined ? `saved for profile ${profile}` : `for ${environmentUrl}`;
  return new CliError(`no API key ${missing}`, { code: 'no_key', hint });
}

/** The profiles with a key. A damaged profile, which the command may not need, has none. */
export const profilesWithKey = ({ readProfile }: Pick<Sources, 'readProfile'>): ProfileName[] =>
  profileNames.filter((name) => {
    try {
      return readProfile(name)?.key !== undefined;
    } catch {
      return false;
    }
  });

/**
 * The error if the key belongs to the origin of `home`, but the request would go to `baseUrl`. `isEnvironment` means
 * that PETS_BASE_URL sets `baseUrl`.
 */
function otherOrigin(
  { keySource, baseUrl }: Omit<Connection, 'key'>,
  home: string,
  isEnvironment: boolean,
): CliError {
  const [own, asked] = [new URL(home).origin, new URL(baseUrl).origin];
  let hint = `log in to ${asked}: pets login --profile <name> --base-url ${baseUrl}; or set PETS_BASE_URL and PETS_API_KEY, and leave out --base-url and --profile`;
  if (isEnvironment) hint = 'set PETS_API_KEY to the key for PETS_BASE_URL, or unset PETS_BASE_URL';
  if (keySource === 'PETS_API_KEY') hint = `set PETS_BASE_URL=${baseUrl}, and PETS_API_KEY to a key for it`;
  return usageError(`the key in ${keySource} is only sent to ${own}, not to ${asked}`, hint);
}

const FILE_MODE = 0o600;

// Each profile has its own file, so that concurrent logins do not lose updates.

/** Reads a profile; undefined if it has never been saved. @throws CliError if its file is damaged or cannot be read */
export const readProfile = (context: HomeContext, name: ProfileName): Profile | undefined =>
  readFile(context, name, Profile);

/** @throws CliError if the profile's file cannot be written */
export const writeProfile = (context: HomeContext, name: ProfileName, profile: Profile): Promise<void> =>
  writeFile(context, name, profile);

/** Reads the settings that do not belong to one profile. @throws CliError if their file is damaged or cannot be read */
export const readSettings = (context: HomeContext): Settings => readFile(context, 'settings', Settings) ?? {};

/** @throws CliError if the file of the settings cannot be written */
export const writeSettings = (context: HomeContext, settings: Settings): Promise<void> =>
  writeFile(context, 'settings', settings);

/** Reads a file, if it exists, without the package conf, which would create the directory and is slow to load. */
function readFile<Schema extends z.ZodMiniType>(
  context: HomeContext,
  name: string,
  schema: Schema,
): z.output<Schema> | undefined {
  const path = join(configDirectory(context), `${name}.json`);
  let text: string;
  try {
    // Reading a named pipe would block.
    const stats = statSync(path);
    if (!stats.isFile() && !stats.isDirectory()) throw new Error('it is not a regular file');
    text = requireUtf8(readFileSync(path), path).toString();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    if (error instanceof CliError) throw error;
    const hint = 'make it a readable file, or set PETS_CONFIG_DIR to another directory';
    throw fileError('read', path, error, hint);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw damaged(path, name, 'it is not valid JSON');
  }
  const result = z.safeParse(schema, value);
  if (!result.success) throw damaged(path, name, describeIssues(result.error));
  return result.data;
}

function damaged(path: string, name: string, reason: string): CliError {
  let next = `log in again: pets login --profile ${name}`;
  if (name === 'settings') next = 'choose the default profile again: pets use <profile>';
  if (name === 'local') next = 'start the local service: pets serve';
  return new CliError(`${path} is damaged: ${reason}`, {
    code: 'damaged_file',
    hint: `fix the file, or move it away and ${next}`,
  });
}

async function writeFile(context: HomeContext, name: string, value: Record<string, unknown>): Promise<void> {
  const directory = configDirectory(context);
  const { default: Conf } = await import('conf');
  try {
    await makePrivateDirectory(realFileSystem, directory);
    const conf = new Conf({
      projectName: 'pets',
      cwd: directory,
      configName: name,
      configFileMode: FILE_MODE,
      accessPropertiesByDotNotation: false,
    });
    conf.store = value;
    chmodSync(conf.path, FILE_MODE);
  } catch (error) {
    throw fileError('write', join(directory, `${name}.json`), error, configHint(error));
  }
}
