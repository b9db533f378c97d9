import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import type { PlanName } from '../../contract/plans.ts';
import { createKey, listKeys } from '../../store/keys.ts';
import { fileError } from '../cli-error.ts';
import type { Context } from '../context.ts';
import { configDirectory } from '../paths.ts';

const DEV = 'dev';

export type DevKey = {
  plan: PlanName;
  /** Undefined where the store's key was made elsewhere: the store itself holds only its hash. */
  key: string | undefined;
};

/**
 * The key `dev` of a store: made where the store has no keys yet, and else read from the file that keeps it, in the
 * configuration directory by the store's id.
 *
 * @returns undefined for a store whose key `dev` was revoked
 */
export async function ensureDevKey(
  context: Context,
  store: { id: string; directory: string; isNew: boolean },
  plan: PlanName,
): Promise<DevKey | undefined> {
  const path = join(configDirectory(context), 'stores', `${store.id}.key`);
  const keys = await listKeys(store.directory);
  const existing = keys.find(({ name }) => name === DEV);
  if (existing) return { plan: existing.plan, key: await readKey(path) };
  if (!store.isNew && keys.length > 0) return undefined;
  const { key } = await createKey(store.directory, { name: DEV, plan }, randomBytes, context.clock);
  await saveKey(context, path, key);
  return { plan, key };
}

async function readKey(path: string): Promise<string | undefined> {
  try {
    const key = (await readFile(path, 'utf8')).trim();
    return API_KEY_PATTERN.test(key) ? key : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw fileError('read', path, error);
  }
}

async function saveKey(context: Context, path: string, key: string): Promise<void> {
  const directory = configDirectory(context);
  try {
    await mkdir(join(directory, 'stores'), { recursive: true, mode: 0o700 });
    await chmod(directory, 0o700);
    await writeFile(path, `${key}\n`, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    throw fileError('write', path, error);
  }
}
