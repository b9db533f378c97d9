import { join, resolve } from 'node:path';
import * as z from 'zod/mini';
import { type FileSystem, realFileSystem } from '../system/file-system.ts';
import { readTextFile, replaceFile } from '../system/files.ts';
import { StoreDamagedError, toStoreError } from './errors.ts';
import { Instant, readStored, Sha256 } from './stored-json.ts';

const StoredBans = z.record(Sha256, Instant, {
  error: ({ code }) => (code === 'invalid_key' ? 'is not a SHA-256' : 'must be a JSON object'),
});

/** The end of each ban, in milliseconds since 1970, by the SHA-256 of the API key in hexadecimal. */
export type Bans = ReadonlyMap<string, number>;

/** Keeps bans across restarts of the server (docs/service.md, D9). */
export interface BanFile {
  /** @throws StoreError if the file cannot be read or is damaged */
  load(): Promise<Bans>;
  /** Resolves when the bans are durable. @throws StoreError */
  save(bans: Bans): Promise<void>;
}

/** The ban file of the store in `directory`. Only the server that holds the store may use it. */
export function openBanFile(directory: string, fileSystem: FileSystem = realFileSystem): BanFile {
  const path = join(resolve(directory), 'bans.json');
  return {
    async load() {
      const text = await readTextFile(fileSystem, path).catch((error) => {
        throw toStoreError(error, `read ${path}`);
      });
      if (text === undefined) return new Map();
      const stored = readStored(StoredBans, text);
      if ('why' in stored) {
        throw new StoreDamagedError(
          `${path} is damaged: ${stored.why}`,
          'delete the file; this lifts all bans',
        );
      }
      return new Map(Object.entries(stored.data).map(([sha256, until]) => [sha256, Date.parse(until)]));
    },
    async save(bans) {
      const entries = [...bans].map(([sha256, until]) => [sha256, new Date(until).toISOString()]);
      const text = `${JSON.stringify(Object.fromEntries(entries), undefined, 2)}\n`;
      try {
        await replaceFile(fileSystem, path, [Buffer.from(text)]);
      } catch (error) {
        throw toStoreError(error, `write ${path}`);
      }
    },
  };
}
