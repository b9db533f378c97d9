import { dirname, join } from 'node:path';
import * as z from 'zod/mini';
import { type Clock, systemClock } from '../../contract/clock.ts';
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
import type { KeyManager } from '../backend.ts';
import { StoreError, StoreUnavailableError, toStoreError } from '../errors.ts';
import type { ReadKeys } from '../keys/key-cache.ts';
import {
  type CreatedKey,
  KeyName,
  type KeyRequest,
  keyExistsError,
  keyNotFoundError,
  makeKey,
  StoredKey,
} from '../keys/keys.ts';
import { Instant, readStored, Sha256 } from '../stored-json.ts';

const MAX_FILE_BYTES = 2 ** 16;

type KeyFilesOptions = {
  clock?: Clock;
  files?: FileSystem;
  /** Called when a server can no longer read the directory. */
  onWarning?: (message: string) => void;
};

/** The contents of a key file. */
export const encodeKey = (key: StoredKey): Buffer => Buffer.from(`${JSON.stringify(key)}\n`);

/** The API keys of the store in a directory: one file per key in the subdirectory `keys` (docs/service.md, D16). */
export class KeyFiles implements KeyManager {
  /** The directory of the key files. */
  readonly path: string;
  #clock: Clock;
  #files: FileSystem;
  #onWarning: (message: string) => void;
  /** What `read` has read, by name. A file is read again only if its version changes. */
  #read = new Map<string, { version: string; key: StoredKey }>();
  /** Whether `read` could read the directory. */
  #isReadable = true;

  constructor(directory: string, options: KeyFilesOptions = {}) {
    const { clock = systemClock, files = realFileSystem, onWarning = () => {} } = options;
    this.path = join(directory, 'keys');
    this.#clock = clock;
    this.#files = files;
    this.#onWarning = onWarning;
  }

  pathOf(name: string): string {
    return join(this.path, `${name}.json`);
  }

  async names(): Promise<string[]> {
    try {
      const fileNames = await this.#files.readdir(this.path);
      const names = fileNames.flatMap((fileName) => /^(.+)\.json$/.exec(fileName)?.[1] ?? []);
      return names.filter((name) => KeyName.safeParse(name).success).sort();
    } catch (error) {
      if (isMissing(error)) return [];
      throw toStoreError(error, `read the keys in ${this.path}`);
    }
  }

  async get(name: string): Promise<StoredKey | undefined> {
    const path = this.pathOf(name);
    const text = await readTextFile(this.#files, path, MAX_FILE_BYTES).catch((error) => {
      throw toStoreError(error, `read ${path}`);
    });
    if (text === undefined) return undefined;
    const stored = readStored(StoredKey, text);
    if ('data' in stored && stored.data.name === name) return stored.data;
    const why = 'data' in stored ? `it contains the key named ${stored.data.name}` : stored.why;
    throw new StoreError(`${path} is damaged: ${why}`, 'revoke the key, then create it again');
  }

  async list(): Promise<StoredKey[]> {
    const names = await this.names();
    const keys = await Promise.all(names.map((name) => this.get(name)));
    return keys.filter((key) => key !== undefined);
  }

  bans(): Promise<Bans> {
    return loadBans(dirname(this.path));
  }

  async create(request: KeyRequest): Promise<CreatedKey> {
    const { created, stored } = makeKey(request, this.#clock.now());
    const { name } = stored;
    const files = this.#files;
    const path = this.pathOf(name);
    const temporary = join(this.path, temporaryName(name));
    try {
      // Do not create the directory of the store: it is missing if it was moved.
      await makeDirectory(files, this.path, false);
      await createFile(files, temporary, [encodeKey(stored)]);
      // Unlike a rename, a link never replaces the file of another key.
      await files.link(temporary, path);
      await fsyncAncestors(files, this.path).catch(async (error) => {
        // The caller gets an error instead of the key, so the file must not stay.
        await files.unlink(path).catch(() => {});
        throw error;
      });
    } catch (error) {
      throw errnoOf(error) === 'EEXIST' ? keyExistsError(name) : toStoreError(error, `write ${path}`);
    } finally {
      await files.unlink(temporary).catch(() => {});
    }
    return created;
  }

  async revoke(name: string): Promise<void> {
    const names = await this.names();
    try {
      // Do not build a path from a name that is not in the list, because the path may be in another directory.
      if (!names.includes(name)) throw keyNotFoundError(name, names);
      await this.#files.unlink(this.pathOf(name));
      await this.#files.syncDirectory(this.path);
    } catch (error) {
      if (isMissing(error)) throw keyNotFoundError(name, names);
      throw toStoreError(error, `delete ${this.pathOf(name)}`);
    }
  }

  /** Reads the keys for a server. @throws StoreUnavailableError, after a warning, if the directory cannot be read */
  async read(): ReturnType<ReadKeys> {
    const names = await this.names().catch(({ message, hint, cause }: StoreError) => {
      if (this.#isReadable) this.#onWarning(`${message}; ${hint}`);
      this.#isReadable = false;
      throw new StoreUnavailableError(message, hint, { cause, outcome: 'not_done' });
    });
    this.#isReadable = true;
    const before = this.#read;
    this.#read = new Map();
    const keys: Awaited<ReturnType<ReadKeys>>[number][] = [];
    // One after the other: a busy server has few file descriptors left, and without one, a key would be left out.
    for (const name of names) {
      try {
        const version = await this.#files.version(this.pathOf(name));
        const known = before.get(name);
        const key = known?.version === version ? known.key : await this.get(name);
        if (!key) continue;
        this.#read.set(name, { version, key });
        keys.push(key);
      } catch (error) {
        if (!isMissing(error)) keys.push({ name, error: toStoreError(error, `read ${this.pathOf(name)}`) });
      }
    }
    return keys;
  }
}

const StoredBans = z.record(Sha256, Instant, {
  error: ({ code }) => (code === 'invalid_key' ? 'is not a SHA-256' : 'must be a JSON object'),
});

/** The end of each ban, in milliseconds since 1970, by the SHA-256 of the API key in hexadecimal. */
type Bans = ReadonlyMap<string, number>;

/** The name of the file in the store's directory. */
export const BANS = 'bans.json';

/**
 * Loads the bans of earlier runs from the store in `directory` (docs/service.md, D9).
 *
 * @throws StoreError if the file cannot be read or is damaged
 */
export async function loadBans(directory: string): Promise<Bans> {
  const path = join(directory, BANS);
  const text = await readTextFile(realFileSystem, path).catch((error) => {
    throw toStoreError(error, `read ${path}`);
  });
  if (text === undefined) return new Map();
  const stored = readStored(StoredBans, text);
  if ('why' in stored) {
    throw new StoreError(`${path} is damaged: ${stored.why}`, 'delete the file; this lifts all bans');
  }
  return new Map(Object.entries(stored.data).map(([sha256, until]) => [sha256, Date.parse(until)]));
}

/** Resolves when the bans are durable. Only the server that has locked the store may call this. @throws StoreError */
export async function saveBans(directory: string, bans: Bans): Promise<void> {
  const path = join(directory, BANS);
  await replaceFile(realFileSystem, path, [encodeBans(bans)]).catch((error) => {
    throw toStoreError(error, `write ${path}`);
  });
}

/** The contents of the file. */
export function encodeBans(bans: Bans): Buffer {
  const entries = [...bans].map(([sha256, until]) => [sha256, new Date(until).toISOString()]);
  return Buffer.from(`${JSON.stringify(Object.fromEntries(entries), undefined, 2)}\n`);
}
