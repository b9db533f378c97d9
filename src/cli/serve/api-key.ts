import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { dirname, join } from 'node:path';
import { json } from 'node:stream/consumers';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import { API_PREFIX } from '../../contract/operations.ts';
import type { PlanName } from '../../contract/plans.ts';
import type { Service } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { generateKey, hashKey } from '../../store/keys/keys.ts';
import { makePrivateDirectory } from '../../system/directories.ts';
import { errnoOf, realFileSystem } from '../../system/file-system.ts';
import { readTextFile, replaceFile } from '../../system/files.ts';
import type { Context } from '../core/context.ts';
import { fileError, usageError } from '../core/errors.ts';
import { readProfile, writeProfile } from '../profiles/files.ts';
import { configDirectory, configHint } from '../profiles/paths.ts';
import { DEFAULT_PORT, isLoopbackUrl } from '../profiles/profile.ts';
import { checkUrl } from '../profiles/resolve.ts';
import type { CommandContext } from '../program/command.ts';

/** The API key that `pets serve` prints or saves. */
export type DevKey = {
  plan: PlanName;
  /** Undefined if no key of the store is saved on this machine, for example because another machine created `dev`. */
  key: string | undefined;
  /** Where the user has set the key, if the user has chosen it. Such a key is not printed. */
  source?: string | undefined;
};

const VARIABLE = 'PETS_SERVE_KEY';
export const MAX_KEY_FILE_BYTES = 2 ** 16;

/** The shortest API key that a user may choose, and the shortest one if others could try to guess it. */
const MIN_KEY_LENGTH = { local: 8, reachable: 20 };

/** An API key that the user has chosen. `source` is the file or the environment variable that contains it. */
export type FixedKey = { key: string; source: string };

/**
 * Reads the API key in the file of `--key-file`, or else in PETS_SERVE_KEY. There is no option for the key itself, because
 * other users can see the arguments of a process.
 *
 * @param isLocal whether the server is only for programs on this machine; called if the length of the key depends on it
 * @returns undefined if there is neither
 * @throws CliError if the file cannot be read, or the key is invalid or too short; the error of `isLocal`
 */
export async function readFixedKey(
  keyFile: string | undefined,
  { env }: Pick<Context, 'env'>,
  isLocal: () => Promise<boolean>,
): Promise<FixedKey | undefined> {
  const source = keyFile ?? VARIABLE;
  const text = keyFile === undefined ? env[VARIABLE] : await readKeyFile(keyFile);
  if (keyFile !== undefined && text === undefined) throw usageError(`the key file ${keyFile} does not exist`);
  if (text === undefined) return undefined;
  // Files and secrets of CI systems often end with a line break.
  const key = text.trim();
  if (!API_KEY_PATTERN.test(key)) {
    throw usageError(
      `the key in ${source} is ${key === '' ? 'empty' : 'not valid'}`,
      'a key consists of visible ASCII characters without spaces',
    );
  }
  if (key.length < MIN_KEY_LENGTH.local) {
    throw usageError(
      `the key in ${source} is too short`,
      `use at least ${MIN_KEY_LENGTH.local} characters, or ${MIN_KEY_LENGTH.reachable} if other machines can reach the server`,
    );
  }
  if (key.length < MIN_KEY_LENGTH.reachable && !(await isLocal())) {
    throw usageError(
      `the key in ${source} is too short for a server that other machines can reach`,
      `use at least ${MIN_KEY_LENGTH.reachable} characters, so that the key cannot be guessed`,
    );
  }
  return { key, source };
}

const TOKEN_VARIABLE = 'PETS_SERVE_TOKEN';

/** Reads the developer token that the user has chosen, in PETS_SERVE_TOKEN. @throws CliError if it is invalid or too short */
export function readToken({ env }: Pick<Context, 'env'>): string | undefined {
  const token = env[TOKEN_VARIABLE];
  if (token === undefined || (API_KEY_PATTERN.test(token) && token.length >= MIN_KEY_LENGTH.reachable))
    return token;
  const problem = API_KEY_PATTERN.test(token) ? 'too short' : 'not valid';
  throw usageError(
    `the token in ${TOKEN_VARIABLE} is ${token === '' ? 'empty' : problem}`,
    `use at least ${MIN_KEY_LENGTH.reachable} visible ASCII characters without spaces, or unset the variable`,
  );
}

/** Reads a file that contains an API key. Undefined if the file does not exist. @throws CliError */
const readKeyFile = (path: string): Promise<string | undefined> =>
  readTextFile(realFileSystem, path, MAX_KEY_FILE_BYTES).catch((error) => {
    throw fileError('read', path, error);
  });

const DEV = 'dev';

/**
 * Returns a key of the store that is saved on this machine: in profile `local`, or in the configuration directory, in a
 * file named after the id of the store. If there is none, creates the key `dev`, unless the store has that key already or
 * is shared with other servers.
 * With `--no-profile`, profile `local` is not read, and a store that has other keys gets no key.
 *
 * @returns undefined if no key of the store is saved and none may be created
 */
export async function ensureDevKey(
  context: Context,
  { store, keys }: Pick<Service, 'store' | 'keys'>,
  location: StoreLocation,
  { plan, profile }: { plan: PlanName; profile: boolean },
): Promise<DevKey | undefined> {
  const path = storeFile(context, store.id, 'key');
  const saved = (await readKeyFile(path))?.trim();
  // The key in the profile comes first, because the user may have saved it there with `pets keys add --save`.
  for (const key of [profile ? readProfile(context, 'local')?.key : undefined, saved]) {
    const known = key && (await keys.find(hashKey(key)));
    if (!known) continue;
    if (key !== saved) await saveKey(context, path, key);
    return { plan: known.plan, key };
  }
  if (location.isShared) return undefined;
  return location.manageKeys(async (manager) => {
    const existing = await manager.get(DEV);
    if (existing) return { plan: existing.plan, key: undefined };
    if (!profile && (await manager.names()).length > 0) return undefined;
    const key = generateKey();
    // Save the key first. Otherwise a crash could leave the store with a key that is saved nowhere.
    await saveKey(context, path, key);
    await manager.create({ name: DEV, plan, key });
    return { plan, key };
  });
}

async function saveKey(context: Context, path: string, key: string): Promise<void> {
  try {
    await writePrivateFile(context, path, `${key}\n`);
  } catch (error) {
    throw fileError('write', path, error, configHint(error));
  }
}

/** A private file about a store of `pets serve`: its API key, or the address of its running server. */
export const storeFile = (context: Context, storeId: string, kind: 'key' | 'server'): string =>
  join(configDirectory(context), 'stores', `${storeId}.${kind}`);

async function writePrivateFile(context: Context, path: string, text: string): Promise<void> {
  await makePrivateDirectory(realFileSystem, configDirectory(context));
  await makePrivateDirectory(realFileSystem, dirname(path));
  await replaceFile(realFileSystem, path, [Buffer.from(text)]);
}

/**
 * Writes the address of a running server to a private file next to the keys, so that `pets keys list` can ask the server. The
 * file has the developer token only if it was generated: one that the user has chosen is written nowhere. Without the file, that command shows less, so errors do not matter.
 *
 * @returns a function that removes the file, unless another server of the store has replaced it
 */
export async function announceServer(
  context: Context,
  { store, url, token }: Pick<Service, 'store' | 'url' | 'token'>,
): Promise<() => Promise<void>> {
  const path = storeFile(context, store.id, 'server');
  const isChosen = token === context.env[TOKEN_VARIABLE];
  const text = `${JSON.stringify({ url, ...(!isChosen && { token }) })}\n`;
  await writePrivateFile(context, path, text).catch(() => {});
  return async () => {
    const current = await readTextFile(realFileSystem, path, MAX_KEY_FILE_BYTES).catch(() => undefined);
    if (current === text) await realFileSystem.unlink(path).catch(() => {});
  };
}

/**
 * Points profile `local` to this service, unless the profile already points to a running service of another store.
 *
 * @returns the URL of that other service, if the profile was not changed
 */
export async function saveLocalProfile(
  context: Context,
  service: Service,
  key: string,
): Promise<string | undefined> {
  const stored = readProfile(context, 'local');
  if (stored && stored.baseUrl !== service.url) {
    const server = await identifyServer(stored.baseUrl);
    if (server.storeId !== undefined && server.storeId !== service.store.id) return stored.baseUrl;
  }
  // Without a change, nothing is written, so that the disk may be full or read-only.
  if (stored?.baseUrl === service.url && stored.key === key) return undefined;
  await writeProfile(context, 'local', { baseUrl: service.url, key });
  return undefined;
}

/**
 * The base URL for a new key of profile `local`: `--base-url`, or else the profile's base URL if it is on this machine, or
 * else the default of `pets serve`.
 */
export function readLocalBaseUrl(context: CommandContext): string {
  const given = context.globals.baseUrl;
  if (given !== undefined) return checkUrl(given, '--base-url');
  const stored = readProfile(context, 'local')?.baseUrl;
  // The user may have pointed the profile to another machine, which must not get a key of the local store.
  const isLocal = stored !== undefined && isLoopbackUrl(new URL(stored));
  return isLocal ? stored : `http://127.0.0.1:${DEFAULT_PORT}${API_PREFIX}`;
}

const TIMEOUT_MS = 1_000;

/** Whether a server responds at a base URL, and the id of its store if that server is `pets serve`. */
export type ServerIdentity = { isRunning: boolean; storeId?: string };

/** Asks the server at a base URL for the id of its store, without an API key (docs/service.md 12). */
export async function identifyServer(baseUrl: string): Promise<ServerIdentity> {
  try {
    const { store } = (await getJson(baseUrl, 'healthz')) as { store?: unknown };
    return { isRunning: true, ...(typeof store === 'string' && { storeId: store }) };
  } catch (error) {
    return { isRunning: errnoOf(error) !== 'ECONNREFUSED' };
  }
}

/** Requests JSON from a route next to the `/v1` of a base URL, also if a reverse proxy adds a prefix. */
export async function getJson(baseUrl: string, route: string, headers: http.OutgoingHttpHeaders = {}) {
  const url = new URL(route, baseUrl);
  const { get } = url.protocol === 'https:' ? https : http;
  const request = get(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
  const [response] = await once(request, 'response');
  return json(response);
}
