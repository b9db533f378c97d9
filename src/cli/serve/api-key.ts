import { createReadStream } from 'node:fs';
import { dirname, join } from 'node:path';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import type { PlanName } from '../../contract/plans.ts';
import type { Service } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { generateKey, hashKey } from '../../store/keys.ts';
import { makePrivateDirectory, readTextFile, realFileSystem, replaceFile } from '../../system/file-system.ts';
import type { Context } from '../core/context.ts';
import { fileError, usageError } from '../core/errors.ts';
import { readInput, requireUtf8 } from '../core/input.ts';
import { configDirectory, configHint } from '../profiles/paths.ts';
import { isLoopbackUrl, readProfile, writeProfile } from '../profiles/profile.ts';

/** What the user has chosen for a run of `pets serve`: an API key, the file or variable that has it, and a developer token. */
export type Secrets = { key?: string | undefined; source: string; token?: string | undefined };

/** The fewest characters of a secret, and of an API key for a server that no other machine can reach. */
const MIN_LENGTH = 20;
const MIN_LOCAL_LENGTH = 8;

/**
 * Reads the API key in the file of `--key-file`, or else in PETS_SERVE_KEY, and the developer token in PETS_SERVE_TOKEN. There
 * are no options for the secrets themselves, because other users can see the arguments of a process.
 *
 * @param isLocal whether the server is only for programs on this machine; called if there is a key
 * @throws CliError if the file cannot be read, or the secrets are invalid, too short or equal; the error of `isLocal`
 */
export async function readSecrets(
  keyFile: string | undefined,
  { env }: Pick<Context, 'env'>,
  isLocal: () => Promise<boolean>,
): Promise<Secrets> {
  const token = env['PETS_SERVE_TOKEN'];
  if (token !== undefined) check(token, 'the token in PETS_SERVE_TOKEN', MIN_LENGTH);
  const source = keyFile ?? 'PETS_SERVE_KEY';
  const text =
    keyFile === undefined
      ? env[source]
      : requireUtf8(await readInput(createReadStream(keyFile), keyFile), keyFile).toString();
  // Files and secrets of CI systems often end with a line break.
  const key = text?.trim();
  if (key !== undefined)
    check(key, `the key in ${source}`, (await isLocal()) ? MIN_LOCAL_LENGTH : MIN_LENGTH);
  if (key !== undefined && key === token) {
    throw usageError(
      'PETS_SERVE_TOKEN and the API key are the same',
      'use different ones, so that clients with the API key cannot use the developer tools',
    );
  }
  return { key, source, token };
}

function check(secret: string, name: string, minimum: number): void {
  const isValid = API_KEY_PATTERN.test(secret);
  if (isValid && secret.length >= minimum) return;
  const problem = isValid ? 'too short' : 'not valid';
  throw usageError(
    `${name} is ${secret === '' ? 'empty' : problem}`,
    `use at least ${minimum} visible ASCII characters without spaces`,
  );
}

/** The API key that `pets serve` prints or saves. */
export type ServedKey = {
  plan: PlanName;
  /** Undefined if the store has the key `dev`, but it is not saved on this machine. */
  key: string | undefined;
};

const DEV = 'dev';

/**
 * Finds or creates the API key that `pets serve` prints. Tries the key in profile `local` (not with `--no-profile`) and
 * then the key in the configuration directory, in a file named after the id of the store. Uses the first that the store
 * accepts. If it accepts none, creates the key `dev`. Does not create it if several servers can use the store, if the
 * store already has the key `dev`, or if it has any key and `--no-profile` is set.
 *
 * @returns undefined if no key was found or created; `key` is undefined if the store has `dev`, which is not saved here
 * @throws CliError if the file of the key cannot be read or written; the errors of the store
 */
export async function ensureDevKey(
  context: Context,
  { store, keys }: Pick<Service, 'store' | 'keys'>,
  location: StoreLocation,
  { plan, profile }: { plan: PlanName; profile: boolean },
): Promise<ServedKey | undefined> {
  const path = join(configDirectory(context), 'stores', `${store.id}.key`);
  const stored = await readTextFile(realFileSystem, path).catch((error) => {
    throw fileError('read', path, error);
  });
  const saved = stored?.trim();
  const save = async (key: string) => {
    try {
      for (const directory of [configDirectory(context), dirname(path)])
        await makePrivateDirectory(realFileSystem, directory);
      await replaceFile(realFileSystem, path, [Buffer.from(`${key}\n`)]);
    } catch (error) {
      throw fileError('write', path, error, configHint(error));
    }
  };
  // The key in the profile comes first, because the user may have saved it there with `pets login`.
  for (const key of [profile ? readProfile(context, 'local')?.key : undefined, saved]) {
    const known = key && (await keys.find(hashKey(key)));
    if (!known) continue;
    if (key !== saved) await save(key);
    return { plan: known.plan, key };
  }
  if (location.isShared) return undefined;
  return location.manageKeys(async (manager) => {
    const existing = await manager.get(DEV);
    if (existing) return { plan: existing.plan, key: undefined };
    if (!profile && (await manager.names()).length > 0) return undefined;
    const key = generateKey();
    // Save the key first. Otherwise a crash could leave the store with a key that is saved nowhere.
    await save(key);
    await manager.create({ name: DEV, plan, key });
    return { plan, key };
  });
}

/**
 * Points profile `local` to this service, unless the user has pointed it to another machine.
 *
 * @returns the URL on that machine; undefined if the profile now points to this service
 */
export async function saveLocalProfile(
  context: Context,
  url: string,
  key: string,
): Promise<string | undefined> {
  const stored = readProfile(context, 'local');
  // Without a change, nothing is written, because the disk may be full or read-only.
  if (stored?.baseUrl === url && stored.key === key) return undefined;
  if (stored && !isLoopbackUrl(new URL(stored.baseUrl))) return stored.baseUrl;
  await writeProfile(context, 'local', { baseUrl: url, key });
  return undefined;
}
