import { join } from 'node:path';
import * as z from 'zod/mini';
import {
  createFile,
  errnoOf,
  type FileSystem,
  fsyncAncestors,
  isMissing,
  makeDirectory,
  readTextFile,
  realFileSystem,
  replaceFile,
  temporaryName,
} from '../../system/file-system.ts';
import { StoreError, toStoreError } from '../errors.ts';
import { KeyName, type KeyOrError, type KeyTable, type StoredBans, StoredKey } from '../keys.ts';
import { IsoTime, parseStoredJson, Sha256 } from '../stored-text.ts';

const MAX_FILE_BYTES = 2 ** 16;

/** The name of the file with the bans in the store's directory. */
export const BANS_FILE = 'bans.json';

/** The end of each ban, by the SHA-256 of the API key. */
const StoredBansJson = z.record(Sha256, IsoTime, {
  error: ({ code }) => (code === 'invalid_key' ? 'is not a SHA-256' : 'must be a JSON object'),
});

/**
 * The API keys of the store in a directory: one file per key in the subdirectory `keys` (docs/service.md, D16). Also the
 * bans, which are in one file (D9).
 */
export class KeyFiles implements KeyTable {
  readonly path: string;
  #files: FileSystem;
  #bansPath: string;
  /** The valid keys that `read` has read, by name. The file of such a key is read again only if its version changes. */
  #cache = new Map<string, { version: string; key: StoredKey }>();

  constructor(directory: string, files: FileSystem = realFileSystem) {
    this.path = join(directory, 'keys');
    this.#bansPath = join(directory, BANS_FILE);
    this.#files = files;
  }

  pathOf(name: string): string {
    return join(this.path, `${name}.json`);
  }

  async read(): Promise<KeyOrError[]> {
    const before = this.#cache;
    this.#cache = new Map();
    const keys: KeyOrError[] = [];
    // Read one file at a time: a busy server has few free file descriptors, and a key that cannot be read is rejected.
    for (const name of await this.#names()) {
      try {
        const version = await this.#files.version(this.pathOf(name));
        const cached = before.get(name);
        const key = cached?.version === version ? cached.key : await this.#readKey(name);
        if (!key) continue;
        this.#cache.set(name, { version, key });
        keys.push(key);
      } catch (error) {
        if (!isMissing(error)) keys.push({ name, error: toStoreError(error, `read ${this.pathOf(name)}`) });
      }
    }
    return keys;
  }

  async #names(): Promise<string[]> {
    try {
      const fileNames = await this.#files.readdir(this.path);
      const names = fileNames.flatMap((fileName) => /^(.+)\.json$/.exec(fileName)?.[1] ?? []);
      return names.filter((name) => KeyName.safeParse(name).success).sort();
    } catch (error) {
      if (isMissing(error)) return [];
      throw toStoreError(error, `read the keys in ${this.path}`);
    }
  }

  async #readKey(name: string): Promise<StoredKey | undefined> {
    const path = this.pathOf(name);
    const text = await readTextFile(this.#files, path, MAX_FILE_BYTES);
    if (text === undefined) return undefined;
    const stored = parseStoredJson(StoredKey, text);
    if ('data' in stored && stored.data.name === name) return stored.data;
    const why = 'data' in stored ? `it contains the key named ${stored.data.name}` : stored.why;
    throw new StoreError(
      `${path} is damaged: ${why}`,
      `correct the file or its name; or revoke the key ${name}, then create a new one`,
    );
  }

  async add(key: StoredKey): Promise<boolean> {
    const files = this.#files;
    const path = this.pathOf(key.name);
    const temporary = join(this.path, temporaryName(key.name));
    try {
      // Do not create the directory of the store. If it is missing, it was moved or deleted.
      await makeDirectory(files, this.path, false);
      await createFile(files, temporary, [Buffer.from(`${JSON.stringify(key)}\n`)]);
      // Unlike a rename, a link never replaces the file of another key.
      await files.link(temporary, path);
      await fsyncAncestors(files, this.path).catch(async (error) => {
        // The caller gets an error instead of the key, so the file must not stay.
        await files.unlink(path).catch(() => {});
        throw error;
      });
      return true;
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') return false;
      throw toStoreError(error, `write ${path}`);
    } finally {
      await files.unlink(temporary).catch(() => {});
    }
  }

  async remove(name: string): Promise<boolean> {
    try {
      await this.#files.unlink(this.pathOf(name));
      await this.#files.syncDirectory(this.path);
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw toStoreError(error, `delete ${this.pathOf(name)}`);
    }
  }

  async bans(): Promise<StoredBans> {
    const path = this.#bansPath;
    const text = await readTextFile(this.#files, path).catch((error) => {
      throw toStoreError(error, `read ${path}`);
    });
    if (text === undefined) return new Map();
    const stored = parseStoredJson(StoredBansJson, text);
    if ('why' in stored)
      throw new StoreError(`${path} is damaged: ${stored.why}`, 'delete the file; this lifts all bans');
    return new Map(Object.entries(stored.data).map(([sha256, until]) => [sha256, Date.parse(until)]));
  }

  /** Saves the bans durably. Only the process that has locked the directory may call this. @throws StoreError */
  async saveBans(bans: StoredBans): Promise<void> {
    const entries = [...bans].map(([sha256, until]) => [sha256, new Date(until).toISOString()]);
    const text = `${JSON.stringify(Object.fromEntries(entries), undefined, 2)}\n`;
    await replaceFile(this.#files, this.#bansPath, [Buffer.from(text)]).catch((error) => {
      throw toStoreError(error, `write ${this.#bansPath}`);
    });
  }
}
