import { join, resolve } from 'node:path';
import * as z from 'zod/mini';
import { realFileSystem } from '../../system/file-system.ts';
import { readTextFile, replaceFile } from '../../system/files.ts';
import { StoreDamagedError, toStoreError } from '../errors.ts';
import { Instant, readStored, Sha256 } from '../stored-json.ts';

const StoredBans = z.record(Sha256, Instant, {
  error: ({ code }) => (code === 'invalid_key' ? 'is not a SHA-256' : 'must be a JSON object'),
});

/** The end of each ban, in milliseconds since 1970, by the SHA-256 of the API key in hexadecimal. */
export type Bans = ReadonlyMap<string, number>;

/** The name of the file in the store's directory. */
export const BANS = 'bans.json';

const banFile = (directory: string): string => join(resolve(directory), BANS);

/**
 * Loads the bans of earlier runs from the store in `directory` (docs/service.md, D9).
 *
 * @throws StoreError if the file cannot be read or is damaged
 */
export async function loadBans(directory: string): Promise<Bans> {
  const path = banFile(directory);
  const text = await readTextFile(realFileSystem, path).catch((error) => {
    throw toStoreError(error, `read ${path}`);
  });
  if (text === undefined) return new Map();
  const stored = readStored(StoredBans, text);
  if ('why' in stored) {
    throw new StoreDamagedError(`${path} is damaged: ${stored.why}`, 'delete the file; this lifts all bans');
  }
  return new Map(Object.entries(stored.data).map(([sha256, until]) => [sha256, Date.parse(until)]));
}

/** Resolves when the bans are durable. Only the server that has locked the store may call this. @throws StoreError */
export async function saveBans(directory: string, bans: Bans): Promise<void> {
  const path = banFile(directory);
  await replaceFile(realFileSystem, path, [encodeBans(bans)]).catch((error) => {
    throw toStoreError(error, `write ${path}`);
  });
}

/** The contents of the file. */
export function encodeBans(bans: Bans): Buffer {
  const entries = [...bans].map(([sha256, until]) => [sha256, new Date(until).toISOString()]);
  return Buffer.from(`${JSON.stringify(Object.fromEntries(entries), undefined, 2)}\n`);
}
