import { dirname, join } from 'node:path';
import type { PlanName } from '../../contract/plans.ts';
import { createKey, generateKey, hashKey, keyNames, readKey } from '../../store/keys/keys.ts';
import { makePrivateDirectory } from '../../system/directories.ts';
import { realFileSystem } from '../../system/file-system.ts';
import { readTextFile, replaceFile } from '../../system/files.ts';
import type { Context } from '../context.ts';
import { fileError } from '../errors/errors.ts';
import { configDirectory } from '../profiles/paths.ts';

const DEV = 'dev';

/** The API key that `pets serve` prints. */
export type DevKey = {
  plan: PlanName;
  /** Undefined if the key is not saved on this machine, for example because another machine created the key. */
  key: string | undefined;
};

/**
 * Returns the store's API key named `dev`. If the store has no keys, creates this key. The key is saved in the
 * configuration directory, in a file named after the id of the store.
 *
 * @returns undefined if the store has keys, but none with this name
 */
export async function ensureDevKey(
  context: Context,
  store: { id: string; directory: string },
  plan: PlanName,
): Promise<DevKey | undefined> {
  const path = join(configDirectory(context), 'stores', `${store.id}.key`);
  // List the names instead of reading all keys, because the file of another key may be damaged.
  const names = await keyNames(store.directory);
  const existing = names.includes(DEV) && (await readKey(store.directory, DEV));
  if (existing) {
    const saved = await readTextFile(realFileSystem, path).catch((error) => {
      throw fileError('read', path, error);
    });
    const key = saved?.trim();
    // The saved key is outdated if `dev` was revoked and added again with `pets keys`.
    return { plan: existing.plan, key: key && hashKey(key) === existing.sha256 ? key : undefined };
  }
  if (names.length > 0) return undefined;
  const key = generateKey();
  // Save the key first. Otherwise a crash could leave the store with a key that is saved nowhere.
  await saveKey(context, path, key);
  await createKey(store.directory, { name: DEV, plan, key }, context.clock);
  return { plan, key };
}

async function saveKey(context: Context, path: string, key: string): Promise<void> {
  try {
    await makePrivateDirectory(realFileSystem, configDirectory(context));
    await makePrivateDirectory(realFileSystem, dirname(path));
    await replaceFile(realFileSystem, path, [Buffer.from(`${key}\n`)]);
  } catch (error) {
    throw fileError('write', path, error);
  }
}
