import { type PlanName, plans, type Quota } from '../../contract/plans.ts';
import { type FileSystem, isMissing, realFileSystem } from '../../system/file-system.ts';
import { StoreDamagedError, StoreError } from '../errors.ts';
import {
  generateKey,
  hashKey,
  keyDirectory,
  keyNames,
  keyPath,
  quotaOf,
  readKey,
  type StoredKey,
} from './keys.ts';

/** The properties of an API key that a server needs. */
export type KnownKey = Pick<StoredKey, 'name' | 'plan' | 'sha256'> & { quota: Quota };

/** For this long, a known key is accepted without reading the files. So a revocation takes effect within a second. */
const FRESH_MS = 500;
/** Unknown keys cause at most one read of the files in this time, unless a key file was created or deleted. */
const UNKNOWN_KEY_MS = 100;

export type RegistryOptions = {
  /** Called once for each file that is damaged or cannot be read. */
  onWarning?: (message: string) => void;
  files?: FileSystem;
};

/** A key file that was read. `key` is undefined if the file is damaged. */
type CachedFile = { version: string; key: StoredKey | undefined };

/** The API keys of a store. Changes of the key files take effect without a restart. */
export class KeyRegistry {
  #directory: string;
  #files: FileSystem;
  #onWarning: (message: string) => void;
  #temporary = new Map<string, KnownKey>();
  #byHash = new Map<string, KnownKey>();
  /** The key files by name. A file is read again only if its version changes. */
  #cache = new Map<string, CachedFile>();
  #directoryVersion: string | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #readForUnknownAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  /** How many readings of the files have started, and the number of the latest complete one, counted from 1. */
  #started = 0;
  #completed = 0;
  #warned = new Set<string>();

  constructor(directory: string, { onWarning = () => {}, files = realFileSystem }: RegistryOptions = {}) {
    this.#directory = directory;
    this.#onWarning = onWarning;
    this.#files = files;
  }

  /** Adds a key that exists only in this process, without a file. By default, generates the key. Returns the key. */
  addTemporary(name: string, plan: PlanName, key: string = generateKey()): string {
    const sha256 = hashKey(key);
    this.#temporary.set(sha256, { name, plan, sha256, quota: plans[plan] });
    return key;
  }

  /** Reads the key files, to report damaged ones before the first request. */
  async load(now: number): Promise<void> {
    // If the directory cannot be read, the first request that needs it fails.
    await this.#read(now).catch(() => {});
  }

  /** Finds a key by its SHA-256 in hexadecimal. Returns a promise if the files must be read. `now` is in milliseconds. */
  find(sha256: string, now: number): KnownKey | undefined | Promise<KnownKey | undefined> {
    const temporary = this.#temporary.get(sha256);
    if (temporary) return temporary;
    const known = isOlder(this.#readAt, now, FRESH_MS) ? undefined : this.#byHash.get(sha256);
    return known ?? this.#lookUp(sha256, now);
  }

  async #lookUp(sha256: string, now: number): Promise<KnownKey | undefined> {
    const started = this.#started;
    if (isOlder(this.#readAt, now, FRESH_MS)) await this.#read(now);
    const known = this.#byHash.get(sha256);
    // If the files were read after this call began and the key was not in them, the key does not exist.
    if (known || this.#completed > started) return known;
    // Between two reads for unknown keys, check only whether a key file was created or deleted.
    const isRecent = !isOlder(this.#readForUnknownAt, now, UNKNOWN_KEY_MS);
    if (isRecent && (await this.#readDirectoryVersion()) === this.#directoryVersion) {
      // A concurrent call may have read the files in the meantime.
      return this.#byHash.get(sha256);
    }
    this.#readForUnknownAt = now;
    await this.#reading;
    await this.#read(now);
    return this.#byHash.get(sha256);
  }

  #read(now: number): Promise<void> {
    this.#reading ??= this.#readFiles(now).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readFiles(now: number): Promise<void> {
    const number = ++this.#started;
    const directoryVersion = await this.#readDirectoryVersion();
    const names = await keyNames(this.#directory, this.#files);
    const cache = new Map<string, CachedFile>();
    await Promise.all(
      names.map(async (name) => {
        const file = await this.#readFile(name);
        if (file) cache.set(name, file);
      }),
    );
    this.#directoryVersion = directoryVersion;
    this.#cache = cache;
    this.#byHash = new Map();
    for (const { key } of cache.values()) {
      if (key) this.#byHash.set(key.sha256, { ...key, quota: quotaOf(key) });
    }
    this.#readAt = now;
    this.#completed = number;
  }

  async #readFile(name: string): Promise<CachedFile | undefined> {
    const cached = this.#cache.get(name);
    let version = '';
    try {
      version = await this.#files.version(keyPath(this.#directory, name));
      if (cached?.version === version) return cached;
      const key = await readKey(this.#directory, name, this.#files);
      return key && { version, key };
    } catch (error) {
      if (isMissing(error)) return undefined;
      this.#warnOnce(name, error);
      // A temporary error, such as too many open files, does not disable the key.
      return error instanceof StoreDamagedError ? { version, key: undefined } : cached;
    }
  }

  /** The version of the key directory, which changes when a key file is created or deleted. */
  #readDirectoryVersion(): Promise<string | undefined> {
    return this.#files.version(keyDirectory(this.#directory)).catch(() => undefined);
  }

  #warnOnce(name: string, error: unknown): void {
    if (this.#warned.has(name)) return;
    this.#warned.add(name);
    const hint = error instanceof StoreError && error.hint ? `; ${error.hint}` : '';
    this.#onWarning(error instanceof Error ? error.message + hint : String(error));
  }
}

/** Whether `time` is at least `ms` before `now`. If the clock was set back, true: a revoked key must not stay valid. */
const isOlder = (time: number, now: number, ms: number) => now < time || now - time >= ms;
