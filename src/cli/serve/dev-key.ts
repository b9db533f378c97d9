import { dirname, join } from 'node:path';
import type { PlanName } from '../../contract/plans.ts';
import type { Service } from '../../server/service.ts';
import type { StoreLocation } from '../../store/backend.ts';
import { generateKey, hashKey } from '../../store/keys/keys.ts';
import { makePrivateDirectory } from '../../system/directories.ts';
import { realFileSystem } from '../../system/file-system.ts';
import { replaceFile } from '../../system/files.ts';
import type { Context } from '../context.ts';
import { fileError } from '../errors/errors.ts';
import { readProfile } from '../profiles/files.ts';
import { configDirectory, configHint } from '../profiles/paths.ts';
import { readKeyFile } from './fixed-key.ts';

const DEV = 'dev';

/** The API key that `pets serve` prints. */
export type DevKey = {
  plan: PlanName;
  /** Undefined if no key of the store is saved on this machine, for example because another machine created `dev`. */
  key: string | undefined;
  /** Where the user has set the key, if the user has chosen it. Such a key is not printed. */
  source?: string | undefined;
};

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
  const path = join(configDirectory(context), 'stores', `${store.id}.key`);
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
    await makePrivateDirectory(realFileSystem, configDirectory(context));
    await makePrivateDirectory(realFileSystem, dirname(path));
    await replaceFile(realFileSystem, path, [Buffer.from(`${key}\n`)]);
  } catch (error) {
    throw fileError('write', path, error, configHint(error));
  }
}
