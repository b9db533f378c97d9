import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PlanName } from '../../contract/plans.ts';
import { createKey, hashKey, keyNames, mintKey, readKey } from '../../store/keys.ts';
import type { Context } from '../context.ts';
import { fileError } from '../errors/cli-error.ts';
import { configDirectory } from '../paths.ts';

const DEV = 'dev';

export type DevKey = {
  plan: PlanName;
  /** Undefined where the store's key was made elsewhere: the store itself holds only its hash. */
  key: string | undefined;
};

/**
 * The key `dev` of a store: made where the store has no keys, and else read from the file that keeps it, in the
 * configuration directory by the store's id.
 *
 * @returns undefined for a store that has keys, and no `dev` among them
 */
export async function ensureDevKey(
  context: Context,
  store: { id: string; directory: string },
  plan: PlanName,
): Promise<DevKey | undefined> {
  // Another key's file may be damaged: that hinders nobody but who has that key.
  const names = await keyNames(store.directory);
  const existing = names.includes(DEV) && (await readKey(store.directory, DEV));
  if (existing) {
    const saved = await readSaved(context, store.id);
    // One that was revoked and made anew by hand has another secret than the file.
    return { plan: existing.plan, key: saved && hashKey(saved) === existing.sha256 ? saved : undefined };
  }
  if (names.length > 0) return undefined;
  // Saved before it is made: a store never has a key that nobody can tell.
  const key = mintKey(randomBytes);
  await save(context, store.id, key);
  await createKey(store.directory, { name: DEV, plan, key }, { clock: context.clock, random: randomBytes });
  return { plan, key };
}

const folderOf = (context: Context): string => join(configDirectory(context), 'stores');
const pathOf = (context: Context, id: string): string => join(folderOf(context), `${id}.key`);

async function readSaved(context: Context, id: string): Promise<string | undefined> {
  const path = pathOf(context, id);
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw fileError('read', path, error);
  }
}

async function save(context: Context, id: string, key: string): Promise<void> {
  const path = pathOf(context, id);
  const temporary = `${path}.${context.pid}`;
  try {
    await mkdir(folderOf(context), { recursive: true, mode: 0o700 });
    await chmod(configDirectory(context), 0o700);
    await writeFile(temporary, `${key}\n`, { mode: 0o600 });
    await rename(temporary, path);
  } catch (error) {
    throw fileError('write', path, error);
  }
}
