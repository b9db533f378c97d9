import { chmodSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as z from 'zod/mini';
import { API_KEY_PATTERN, LOOPBACK_NAME_PATTERN } from '../../contract/headers.ts';
import { describeIssues, fieldError } from '../../contract/json.ts';
import { errnoOf, isMissing, makeDirectory, realFileSystem, replaceFile } from '../../system/file-system.ts';
import { CliError, fileError, usageError } from '../core/errors.ts';
import { requireUtf8 } from '../core/input.ts';
import { shellQuote } from '../output/text.ts';
import { configDirectory, type HomeContext } from './paths.ts';

/** The hint after an error of reading or writing a file in the configuration directory. */
export function configHint(context: HomeContext, error: unknown): string {
  const { env, platform, homeDirectory } = context;
  const isChosen = Boolean(env['PETS_CONFIG_DIR']);
  if (!isChosen && homeDirectory === dirname(homeDirectory))
    return 'set HOME or PETS_CONFIG_DIR to a writable directory';
  const errno = errnoOf(error);
  if (errno === 'EBUSY') return 'the file is a mount point of its own; mount its directory instead';
  if (errno === 'EPERM')
    return 'its file system may not support private files; set PETS_CONFIG_DIR to a directory on another one';
  if (errno !== 'EACCES' || platform === 'win32')
    return 'check this path and the free disk space, or set PETS_CONFIG_DIR to another directory';
  // A command with sudo also creates the parent, such as ~/.config, if it does not exist.
  const directory = isChosen ? configDirectory(context) : dirname(configDirectory(context));
  const chown = `sudo chown -R "$(id -un)" ${shellQuote([directory], platform)}`;
  return `if it was created with sudo, give it back: ${chown}; otherwise, set PETS_CONFIG_DIR to another directory`;
}

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

/** The service and key that a command uses. The key is empty while `probe` checks a base URL without a key. */
export type Connection = {
  profile: ProfileName;
  baseUrl: string;
  key: string;
  keySource: KeySource;
};

/** Where the key comes from, as shown in messages. */
export type KeySource = 'PETS_API_KEY' | 'this login' | `profile ${ProfileName}`;

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

/** Whether a URL has a loopback name or address. Plain http to any other host needs the permission of the user. */
export const isLoopbackUrl = (url: URL): boolean => LOOPBACK_NAME_PATTERN.test(url.hostname);

/** The profile set by `--profile`, or else by PETS_PROFILE, or else by `pets use`, or else prod. @throws CliError */
export function chooseProfile(context: HomeContext & { globals: { profile?: ProfileName } }): ProfileName {
  const { globals, env } = context;
  if (globals.profile !== undefined) return globals.profile;
  const fromEnv = env['PETS_PROFILE'];
  if (!fromEnv) return readSettings(context).defaultProfile ?? 'prod';
  const profile = profileNames.find((name) => name === fromEnv);
  if (profile !== undefined) return profile;
  throw usageError(
    `PETS_PROFILE must be one of ${profileNames.join(', ')}, not ${JSON.stringify(fromEnv)}`,
    'see: pets help environment',
  );
}

/** Matches an address without https://, and hardly any API key, because an error must not repeat a key. */
const HOST_AND_PATH = /^(localhost|[a-z\d-]+(\.[a-z\d-]+)+)(:\d+)?(\/[a-z\d/.-]*)?$/;

/** Normalizes a base URL. `source` names the setting in the error. @throws CliError if the URL is invalid */
export function checkUrl(text: string, source: string): string {
  const url = parseBaseUrl(text);
  if (url !== undefined) return url;
  const problem = /^https?:/i.test(text)
    ? 'be a valid URL without @, ? and #'
    : 'begin with https:// or http://';
  const scheme = /^(localhost|127\.)/.test(text) ? 'http' : 'https';
  const example = HOST_AND_PATH.test(text) ? `${scheme}://${text}` : 'https://api.example.com/v1';
  throw usageError(`${source} must ${problem}`, `for example, without quotes: ${example}`);
}

/** @throws CliError with exit code 2 if the key would be sent unencrypted to another machine without permission */
export function checkProtocol(baseUrl: string, env: HomeContext['env']): void {
  const url = new URL(baseUrl);
  if (url.protocol === 'https:' || isLoopbackUrl(url) || env['PETS_ALLOW_HTTP'] === '1') return;
  throw usageError(
    `${url.origin} does not use https: the key would be sent unencrypted`,
    'use https, or set PETS_ALLOW_HTTP=1 if you trust the network',
  );
}

const FILE_MODE = 0o600;

// Each profile has its own file, so that concurrent logins do not lose updates.

/** Reads a profile; undefined if it has no file. @throws CliError if its file is damaged or cannot be read */
export const readProfile = (context: HomeContext, name: ProfileName): Profile | undefined =>
  readJson(context, name, Profile);

/** Reads the settings that do not belong to one profile. @throws CliError if their file is damaged or cannot be read */
export const readSettings = (context: HomeContext): Settings => readJson(context, 'settings', Settings) ?? {};

/** Reads a file, if it exists, without the package conf, which is slow to load, and would create a missing directory. */
function readJson<Schema extends z.ZodMiniType>(
  context: HomeContext,
  name: string,
  schema: Schema,
): z.output<Schema> | undefined {
  const path = join(configDirectory(context), `${name}.json`);
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw fileError('read', path, error, configHint(context, error));
  }
  let value: unknown;
  try {
    value = JSON.parse(requireUtf8(bytes, 'it').toString());
  } catch (error) {
    throw damagedError(path, name, error instanceof CliError ? error.message : 'it is not valid JSON');
  }
  const result = z.safeParse(schema, value);
  if (!result.success) throw damagedError(path, name, describeIssues(result.error));
  return result.data;
}

function damagedError(path: string, name: string, reason: string): CliError {
  const again = name === 'settings' ? 'pets use prod' : `pets login --profile ${name}`;
  return new CliError(`${path} is damaged: ${reason}`, {
    code: 'damaged_file',
    hint: `fix the file; or move it away, then save it again: ${again}`,
  });
}

/** Writes a profile or the settings. @throws CliError if the file cannot be written */
export async function saveJson<Name extends ProfileName | 'settings'>(
  context: HomeContext,
  name: Name,
  value: Name extends 'settings' ? Settings : Profile,
): Promise<void> {
  const directory = configDirectory(context);
  const { default: Conf } = await import('conf');
  try {
    await makeDirectory(realFileSystem, directory);
    const conf = new Conf({
      projectName: 'pets',
      cwd: directory,
      configName: name,
      configFileMode: FILE_MODE,
      accessPropertiesByDotNotation: false,
    });
    try {
      conf.store = value;
    } catch (error) {
      // Root in a container may not give the new file the owner of the old one. Any other user need not.
      if (!['EPERM', 'EINVAL'].includes(errnoOf(error) ?? '')) throw error;
      await replaceFile(realFileSystem, realpathSync(conf.path), [Buffer.from(JSON.stringify(value))]);
    }
    if ((statSync(conf.path).mode & 0o077) !== 0) chmodSync(conf.path, FILE_MODE);
  } catch (error) {
    throw fileError('write', join(directory, `${name}.json`), error, configHint(context, error));
  }
}
