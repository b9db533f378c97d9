import { type PlanName, plans } from '../../contract/plans.ts';
import type { SteadyClock } from '../../system/clock.ts';
import type { AcceptedKey, AcceptedKeys } from '../backend.ts';
import type { StoreError } from '../errors.ts';
import { generateKey, hashKey, type KeyTable, quotaOf } from './keys.ts';

type KeyCacheOptions = {
  clock: SteadyClock;
  sleep(milliseconds: number): Promise<void>;
  /** Called once for each key that cannot be read. Such a key is left out. */
  onWarning(message: string): void;
};

/** For this long after the keys were read, a known key needs no other read. So a revocation takes effect within 1 s. */
const FRESH_MS = 900;
/** After this time, the keys are read again while known keys are still accepted, so that requests need not wait. */
const REFRESH_MS = 500;
/** Unknown keys, which anyone can send, cause at most one read of the keys in this time. */
const UNKNOWN_KEY_MS = 100;

/** The API keys of a store, in memory. Changes of the stored keys take effect without a restart. */
export class KeyCache implements AcceptedKeys {
  #readKeys: KeyTable['read'];
  #options: KeyCacheOptions;
  #warned = new Set<string>();
  #temporary = new Map<string, AcceptedKey>();
  #byHash = new Map<string, AcceptedKey>();
  /** When the last read began, and when the last complete one did. */
  #startedAt = Number.NEGATIVE_INFINITY;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  /** A read that is planned but has not begun. */
  #nextRead: Promise<void> | undefined;

  constructor(readKeys: KeyTable['read'], options: KeyCacheOptions) {
    this.#readKeys = readKeys;
    this.#options = options;
  }

  addTemporary(name: string, plan: PlanName, key: string = generateKey()): string {
    const sha256 = hashKey(key);
    this.#temporary.set(sha256, { name, plan, sha256, quota: plans[plan] });
    return key;
  }

  /** Reads the keys, to report damaged ones before the first request. */
  load(): Promise<void> {
    return this.#read();
  }

  /** Returns a promise only if the keys must be read. */
  find(sha256: string): AcceptedKey | undefined | Promise<AcceptedKey | undefined> {
    const temporary = this.#temporary.get(sha256);
    if (temporary) return temporary;
    const age = this.#age;
    const known = age < FRESH_MS ? this.#byHash.get(sha256) : undefined;
    // If this read fails, known keys are accepted until `age` is `FRESH_MS`. Then, `#lookUp` reads again.
    if (known && age >= REFRESH_MS) this.#read().catch(() => {});
    return known ?? this.#lookUp(sha256);
  }

  async list(): Promise<AcceptedKey[]> {
    await this.#readLater();
    const all = new Map([...this.#byHash, ...this.#temporary]);
    return [...all.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The time since the last complete read began, in milliseconds. */
  get #age(): number {
    return this.#options.clock.elapsed() - this.#readAt;
  }

  async #lookUp(sha256: string): Promise<AcceptedKey | undefined> {
    if (this.#byHash.has(sha256)) {
      // A read that is already running may be recent enough to show whether the key was revoked.
      await this.#read();
      if (this.#age < FRESH_MS) return this.#byHash.get(sha256);
    }
    // The key may just have been added, so the read must begin after this call.
    await this.#readLater();
    return this.#temporary.get(sha256) ?? this.#byHash.get(sha256);
  }

  /** Waits for a read that begins after this call. */
  #readLater(): Promise<void> {
    this.#nextRead ??= this.#readSoon();
    return this.#nextRead;
  }

  async #readSoon(): Promise<void> {
    const wait = this.#startedAt + UNKNOWN_KEY_MS - this.#options.clock.elapsed();
    if (wait > 0) await this.#options.sleep(wait);
    await this.#reading?.catch(() => {});
    this.#nextRead = undefined;
    await this.#read();
  }

  #read(): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readOnce(): Promise<void> {
    const startedAt = this.#options.clock.elapsed();
    this.#startedAt = startedAt;
    const byHash = new Map<string, AcceptedKey>();
    for (const key of await this.#readKeys()) {
      if ('error' in key) this.#warnOnce(key.name, key.error);
      else byHash.set(key.sha256, { ...key, quota: quotaOf(key) });
    }
    this.#byHash = byHash;
    this.#readAt = startedAt;
  }

  #warnOnce(name: string, { message, hint }: StoreError): void {
    if (!this.#warned.has(name)) this.#options.onWarning(`${message}; ${hint}`);
    this.#warned.add(name);
  }
}
