import { dirname, join } from 'node:path';
import type { PlanName } from '../../contract/api.ts';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import type { OpenedStore } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { StoreError } from '../../store/errors.ts';
import { generateKey, hashKey } from '../../store/keys.ts';
import {
  isUnwritable,
  makePrivateDirectory,
  readTextFile,
  realFileSystem,
  replaceFile,
} from '../../system/file-system.ts';
import type { Context } from '../core/context.ts';
import { type CliError, fileError, usageError } from '../core/errors.ts';
import { readUtf8File } from '../core/input.ts';
import { configDirectory } from '../profiles/paths.ts';
import { isLoopbackUrl, type Profile, readProfile, saveJson } from '../profiles/profile.ts';
import { addDataOption, DEFAULT_PLAN, type ServeOptions } from './options.ts';

/** What the user has chosen for a run of `pets serve`: an API key, the file or variable that has it, and a developer token. */
export type Secrets = { key?: string | undefined; source: string; token?: string | undefined };

const MIN_LENGTH = 20;

/** How long another server on this machine may take to say that it runs. */
const HEALTH_TIMEOUT_MS = 500;

/**
 * Reads the API key in the file of `--key-file`, or else in PETS_SERVE_KEY, and the developer token in PETS_SERVE_TOKEN. There
 * are no options for the secrets themselves, because other users can see the arguments of a process.
 *
 * @throws CliError if the file cannot be read or is not UTF-8, or a secret is invalid or too short
 */
export async function readSecrets(
  keyFile: string | undefined,
  { env }: Pick<Context, 'env'>,
): Promise<Secrets> {
  const source = keyFile ?? 'PETS_SERVE_KEY';
  const text = keyFile === undefined ? env[source] : await readUtf8File(keyFile);
  // Files and secrets of CI systems often end with a line break.
  const key = text?.toString().trim();
  const token = env['PETS_SERVE_TOKEN'];
  for (const [secret, name] of [
    [key, source],
    [token, 'PETS_SERVE_TOKEN'],
  ])
    if (secret !== undefined && (secret.length < MIN_LENGTH || !API_KEY_PATTERN.test(secret)))
      throw usageError(
        `the secret in ${name} cannot be used`,
        `use at least ${MIN_LENGTH} visible ASCII characters without spaces`,
      );
  return { key, source, token };
}

/** The API key of a run (`served`), if it has one, and what profile `local` refers to. */
export type ProvidedKey = { served?: { plan: PlanName; key: string } | undefined } & LocalProfile;

/** Whether profile `local` has the URL and the key of this service, or else the base URL of the other service that it has. */
type LocalProfile = { isProfileSaved?: boolean; otherService?: string };

/**
 * Provides the API key of a run. With a fixed key, `--ephemeral` or a command, only this server accepts the key. Otherwise, it
 * is a key of the store. Except with a command or `--no-profile`, `saveLocalProfile` gets the key. If a key or the profile
 * cannot be saved, for example because a container has no home directory, the server warns and starts anyway.
 *
 * @throws StoreError
 */
export async function provideKey(
  { profile, command, data, ephemeral, plan = DEFAULT_PLAN }: ServeOptions,
  context: Context,
  location: StoreLocation,
  fixedKey: string | undefined,
  { store, keys, url }: OpenedStore,
  warn: (message: string) => void,
): Promise<ProvidedKey> {
  const addTemporaryKey = () => ({ plan, key: keys.addTemporary('(temporary)', plan, fixedKey) });
  const isTemporary = command.length > 0 || ephemeral || fixedKey !== undefined;
  const path = join(configDirectory(context), 'stores', `${store.id}.key`);
  const served = isTemporary
    ? addTemporaryKey()
    : await ensureDevKey().catch((error) => {
        // The server can run without this key, but not with a broken store. A store on a full disk is not broken.
        if (error instanceof StoreError && !isUnwritable(error.cause)) throw error;
        const { message } = 'syscall' in error ? fileError('use', path, error) : error;
        const add = addDataOption('pets keys add laptop', data, location, context);
        warn(`${message}; so no permanent API key was created; to create one: ${add}`);
        return location.isShared ? undefined : addTemporaryKey();
      });
  if (served === undefined || !profile || command.length > 0) return { served };
  const local = await saveLocalProfile(context, url, served.key).catch((error: CliError) => {
    warn(
      `${error.message}; so profile local was not saved (${error.hint}); to start without it: --no-profile`,
    );
    return {};
  });
  return { served, ...local };

  /**
   * The first of these keys that the store accepts: the one in profile `local`, where the user may have saved it with
   * `pets login`, and the one that an earlier run has saved. If a store on this machine has no key, creates the key `dev`.
   */
  async function ensureDevKey(): Promise<ProvidedKey['served']> {
    const saved = await readTextFile(realFileSystem, path);
    for (const key of [profile ? readProfile(context, 'local')?.key : undefined, saved?.trim()]) {
      const accepted = key && (await keys.find(hashKey(key)));
      if (accepted) return { plan: accepted.plan, key };
    }
    if (location.isShared) return undefined;
    return location.manageKeys(async (manager) => {
      if ((await manager.names()).length > 0) return undefined;
      const key = generateKey();
      // Save the key first. Otherwise a crash could leave the store with a key that is saved nowhere.
      await makePrivateDirectory(realFileSystem, dirname(path));
      await replaceFile(realFileSystem, path, [Buffer.from(`${key}\n`)]);
      await manager.create({ name: 'dev', plan, key });
      return { plan, key };
    });
  }
}

/** Points profile `local` to this service, unless it has the URL of another machine or running server. @throws CliError */
async function saveLocalProfile(context: Context, url: string, key: string): Promise<LocalProfile> {
  const stored = readProfile(context, 'local');
  // Without a change, nothing is written, because the disk may be full or read-only.
  if (stored?.baseUrl === url && stored.key === key) return { isProfileSaved: true };
  if (
    stored &&
    stored.baseUrl !== url &&
    (!isLoopbackUrl(new URL(stored.baseUrl)) || (await isRunning(stored)))
  )
    return { otherService: stored.baseUrl };
  await saveJson(context, 'local', { baseUrl: url, key });
  return { isProfileSaved: true };
}

/** Removes a key from profile `local`, unless the profile has another key now. @throws CliError */
export async function forgetLocalKey(context: Context, key: string | undefined): Promise<void> {
  const stored = readProfile(context, 'local');
  if (stored && stored.key === key) await saveJson(context, 'local', { baseUrl: stored.baseUrl });
}

const isRunning = ({ baseUrl }: Profile): Promise<boolean> =>
  fetch(new URL('/healthz', baseUrl), { signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS) }).then(
    ({ ok }) => ok,
    () => false,
  );
