import { randomBytes } from 'node:crypto';
import { type PlanName, plans, type Quota } from '../contract/plans.ts';
import { StoreDamagedError } from './errors.ts';
import { type Files, isMissing, realFiles } from './files.ts';
import {
  hashKey,
  keyFolder,
  keyNames,
  keyPath,
  mintKey,
  quotaOf,
  type Random,
  readKey,
  type StoredKey,
} from './keys.ts';

/** What a server has to know of a key. */
export type KnownKey = Pick<StoredKey, 'name' | 'plan' | 'sha256'> & { quota: Quota };

/** How old the last reading may be, in milliseconds: a revocation holds within a second. */
const FRESH_MS = 500;
/** Unknown keys make the directory be read at most this often: ten times a second. */
const UNKNOWN_MS = 100;

export type RegistryOptions = {
  /** Told once of each file that cannot be read, or is damaged. */
  onWarning?: (message: string) => void;
  random?: Random;
  files?: Files;
};

type Seen = { version: string; key: StoredKey | undefined };

/** The API keys of a store, as their files are now. */
export class KeyRegistry {
  #directory: string;
  #files: Files;
  #random: Random;
  #onWarning: (message: string) => void;
  #temporary = new Map<string, KnownKey>();
  #byHash = new Map<string, KnownKey>();
  /** What was read of each file, so that only those that changed are read again. */
  #seen = new Map<string, Seen>();
  #folder: string | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #unknownAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  /** The number of the last reading that was begun, and of the last that is done. */
  #begun = 0;
  #done = 0;
  #warned = new Set<string>();

  constructor(
    directory: string,
    { onWarning = () => {}, random = randomBytes, files = realFiles }: RegistryOptions = {},
  ) {
    this.#directory = directory;
    this.#onWarning = onWarning;
    this.#random = random;
    this.#files = files;
  }

  /** Makes a key that is good in this process for as long as it lives, and is in no file. */
  addTemporary(plan: PlanName): string {
    const key = mintKey(this.#random);
    const sha256 = hashKey(key);
    this.#temporary.set(sha256, { name: 'temporary', plan, sha256, quota: plans[plan] });
    return key;
  }

  /** The key of that SHA-256 (hexadecimal), undefined where there is none. `now` is in milliseconds. */
  find(sha256: string, now: number): KnownKey | undefined | Promise<KnownKey | undefined> {
    const temporary = this.#temporary.get(sha256);
    if (temporary) return temporary;
    const fresh = isOlder(this.#readAt, now, FRESH_MS) ? undefined : this.#byHash.get(sha256);
    return fresh ?? this.#lookUp(sha256, now);
  }

  async #lookUp(sha256: string, now: number): Promise<KnownKey | undefined> {
    const before = this.#begun;
    if (isOlder(this.#readAt, now, FRESH_MS)) await this.#read(now);
    const known = this.#byHash.get(sha256);
    // Only a reading that began after the question can say that there is no such key: it may just have been made.
    if (known || this.#done > before) return known;
    // Often asked it looks only whether a key was made or revoked since.
    if (!isOlder(this.#unknownAt, now, UNKNOWN_MS) && (await this.#folderVersion()) === this.#folder) {
      return undefined;
    }
    this.#unknownAt = now;
    await this.#reading;
    await this.#read(now);
    return this.#byHash.get(sha256);
  }

  #read(now: number): Promise<void> {
    this.#reading ??= this.#readAll(now).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readAll(now: number): Promise<void> {
    const number = ++this.#begun;
    const folder = await this.#folderVersion();
    const names = await keyNames(this.#directory, this.#files);
    const seen = new Map<string, Seen>();
    await Promise.all(
      names.map(async (name) => {
        const one = await this.#readOne(name);
        if (one) seen.set(name, one);
      }),
    );
    this.#folder = folder;
    this.#seen = seen;
    this.#byHash = new Map();
    for (const { key } of seen.values()) {
      if (key) this.#byHash.set(key.sha256, { ...key, quota: quotaOf(key) });
    }
    this.#readAt = now;
    this.#done = number;
  }

  async #readOne(name: string): Promise<Seen | undefined> {
    const before = this.#seen.get(name);
    try {
      const version = await this.#files.version(keyPath(this.#directory, name));
      if (before?.version === version) return before;
      return await this.#readGood(name, version);
    } catch (error) {
      if (isMissing(error)) return undefined;
      this.#warn(name, error);
      // A file that cannot be read just now (too many are open) says nothing of its key: the next reading tells.
      return before;
    }
  }

  /** One damaged file hinders nobody but its own key. */
  async #readGood(name: string, version: string): Promise<Seen | undefined> {
    try {
      const key = await readKey(this.#directory, name, this.#files);
      return key && { version, key };
    } catch (error) {
      if (!(error instanceof StoreDamagedError)) throw error;
      this.#warn(name, error);
      return { version, key: undefined };
    }
  }

  /** Another one when a key's file was made or removed: its names are what a directory holds. */
  async #folderVersion(): Promise<string | undefined> {
    try {
      return await this.#files.version(keyFolder(this.#directory));
    } catch {
      return undefined;
    }
  }

  #warn(name: string, error: unknown): void {
    if (this.#warned.has(name)) return;
    this.#warned.add(name);
    this.#onWarning(error instanceof Error ? error.message : String(error));
  }
}

// A clock that was set back must not keep old keys good.
const isOlder = (at: number, now: number, ms: number) => now < at || now - at >= ms;
